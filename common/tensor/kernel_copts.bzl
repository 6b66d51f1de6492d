"""Compiler options of numeric kernels; why each is there is told in cpu_dispatch.h."""

KERNEL_COPTS = [
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]
