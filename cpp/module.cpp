#include "bind.h"

NB_MODULE(_core, m) {
    m.doc() = "The native core of dope.";
    dope::bind_sums(m);
    dope::bind_scan(m);
    dope::bind_edges(m);
    dope::bind_weights(m);
    dope::bind_flow(m);
    dope::bind_roof(m);
    dope::bind_coupling(m);
    dope::bind_blocks(m);
    dope::bind_standpoint(m);
    dope::bind_trws(m);
    dope::bind_label_trws(m);
    dope::bind_mean_field(m);
    dope::bind_search(m);
}
