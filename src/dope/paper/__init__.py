"""The paper's experiments, run anew: `dope paper`. Cases, runs, what they came to, and a page that shows it.

    cases      what is minimized: photographs, a brain scan, drawings
    study      2D and 3D: the runs of a table, and what is measured of each
    serial     a peer to compare with, in a process of its own
    ledger     lines and labels that are kept, so that a run can be broken off
"""
