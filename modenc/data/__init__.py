"""Reading texts and pairs from files and public data sets, and filtering them."""
