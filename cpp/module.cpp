#include <nanobind/nanobind.h>

NB_MODULE(_core, m) { m.doc() = "The native core of dope."; }
