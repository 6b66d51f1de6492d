"""Classifies kernels by the names that profilers show: PyTorch's, Triton's, cuBLAS's, cuDNN's, NCCL's and ours."""

import re

# The first match counts. Convolutions come before products, as they are "implicit gemm"; fused kernels count as their costliest part.
_RULES = [
    ("communication", r"nccl"),
    ("attention", r"flash|fmha|sdpa|attention|mha|cudnn::fusion::(matmul_dq|compute_dot_do_o|convert_dq)"),
    ("optimizer", r"adam|multi_tensor|optimizer|sum_of_squares"),
    ("convolution", r"conv(?!ert)|fprop|wgrad|dgrad|implicit|winograd|nchw|nhwc|patches|channels(inner|outer)most"),
    ("matmul", r"gemm|gemv|nvjet|cutlass|xmma|matmul|splitk|cublasLt::epilogue|(^|_)(add|b)?mm(_|$)"),
    ("loss", r"log_?softmax|nll|cross_?entropy|softmax"),
    ("norm", r"norm"),
    ("copy", r"memcpy|memset|copy"),
    ("elementwise", r"^triton_|elementwise|vectorized|unrolled|reduce|embedding|index|pool|pixels|rotary|gelu|relu|fill|cast|activation|bias|"
     r"column_?sums|sum_?columns|id_order|scale|gather|(texts|types|mask|map)kernel"),
]
_COMPILED = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _RULES]


def kind_of(kernel):
    return next((kind for kind, pattern in _COMPILED if pattern.search(kernel)), "other")


def by_kind(kernels, steps):
    """Milliseconds of a step by kind, longest first. kernels: (name, launches, microseconds of all steps) ..."""
    sums = {}
    for name, _, microseconds in kernels:
        kind = kind_of(name)
        sums[kind] = sums.get(kind, 0.0) + microseconds / 1000 / steps
    return {kind: round(value, 3) for kind, value in sorted(sums.items(), key=lambda entry: -entry[1])}
