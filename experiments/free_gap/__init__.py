"""Free gap estimates [ding2022]: figures 2 to 9."""
