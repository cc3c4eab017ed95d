"""The pilot studies: answers from oracle contexts (paper, Figure 4) and without any (paper, Table 6)."""
