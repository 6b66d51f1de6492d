"""What must be true of every overlay. The checks are in pod_checks.py and cluster_checks.py; each gives a sentence for each thing that is
wrong."""

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function
