"""The sparse vector with exponential noise [liu2024]: figures 7, 8, 10, 11, 16, 17 and appendix I."""
