// The kernels of one module, SIMCUDA_SOURCE, compiled for the host with the definitions that nvcc is given for it.
#include <limits.h>
#include <math.h>
#include <simcuda/emulation.h>

#include "algebra/algebra.h"

// Every module has a namespace of its own, for they share the names of their templates.
namespace {
#include SIMCUDA_SOURCE
}
