"""Blocks in other processes, by Dask.

`dope.Dask("local:2")` starts two processes here; an address, or any `distributed.Client`, takes blocks to a cluster.
Who works on which block does not matter: the labels are, to the bit, those of this process alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import dope


def main() -> None:
    rng = np.random.default_rng(6)
    rows, columns = np.mgrid[:240, :360]
    truth = np.sin(rows / 25 + 2 * np.sin(columns / 60)) > 0.2
    unary = 0.5 - truth + rng.normal(0, 0.6, truth.shape)
    energy = dope.Energy.grid(unary, lam=0.4, kernel=3)

    with dope.Dask("local:2") as cluster:
        result = dope.minimize(energy, blocks=(3, 4), executor=cluster)
    alone = dope.minimize(energy)

    print(result)
    print("the same labels as in this process:", np.array_equal(result.labels, alone.labels))

    # Who solved which block in the first pass.
    done = [task for task in result.trace[0].tasks.done if task.kind == "prove"]
    workers = sorted({task.worker for task in done})
    print(f"{len(done)} blocks in the first pass, by {len(workers)} processes")
    who = np.zeros(truth.shape)
    for task in done:
        who[result.partition.blocks[task.block].where] = workers.index(task.worker)
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    axes.imshow(who, cmap="Pastel1", vmin=0, vmax=8)
    axes.contour(result.labels, [0.5], colors="black", linewidths=1)
    axes.set(title="which process solved which block", xticks=[], yticks=[])
    figure.savefig("dask_cluster.png", dpi=120)


if __name__ == "__main__":  # the other processes import this file as well
    main()
