"""The account: its charges and streams, its history as it is told, and whose data it is about."""
