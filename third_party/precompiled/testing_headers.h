// The headers that tests include most, parsed once for all of them: see
// precompiled.bzl.
#ifndef RINGMASTER_THIRD_PARTY_PRECOMPILED_TESTING_HEADERS_H_
#define RINGMASTER_THIRD_PARTY_PRECOMPILED_TESTING_HEADERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "third_party/precompiled/product_headers.h"

#endif  // RINGMASTER_THIRD_PARTY_PRECOMPILED_TESTING_HEADERS_H_
