"""Compiler options of numeric kernels; why each is there is told in cpu_dispatch.h."""

_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
]

# For CallOnCpu: the same results on every processor.
KERNEL_COPTS = _COPTS + ["-ffp-contract=off"]

# For CallOnCpuFma: fused multiply-adds where the processor has them.
FMA_KERNEL_COPTS = _COPTS + [
    "-ffp-contract=fast",
    "-DRINGMASTER_FMA_KERNELS",
]
