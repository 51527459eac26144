"""GSM8K: word problems of grade-school arithmetic, each with a worked answer that ends on a number."""
