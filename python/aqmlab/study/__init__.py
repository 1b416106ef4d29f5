"""Studies: experiments, claims, figures and tables of a question, judged and reported."""
