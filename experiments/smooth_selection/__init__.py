"""Selection by smooth sensitivity [yamamoto2024]: figures 1 and 2, tables I and II, Lemma 4, and what better accounts and scores gain."""
