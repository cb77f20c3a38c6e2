#include "bind.h"

NB_MODULE(_core, m) {
    m.doc() = "The native core of dope.";
    dope::bind_weights(m);
    dope::bind_flow(m);
    dope::bind_coupling(m);
    dope::bind_blocks(m);
}
