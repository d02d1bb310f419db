"""The report: one page, without a network, that shows what a run learned."""
