#include "at_work.h"
#include "bind.h"
#include "search.h"

namespace dope {

void bind_search(nb::module_& m) {
    nb::class_<Search>(m, "Search", "Search for labels of low energy. Arrays are flat.")
        .def(nb::new_([](const Neighbors& neighbors) {
                 return at_work([&](const Poll&) { return new Search(neighbors); });
             }),
             nb::arg("neighbors"))
        .def_prop_ro("sites", &Search::sites)
        .def(
            "run",
            [](const Search& self, const nb::object& unary, const nb::object& labels, Index sweeps,
               double seconds, std::uint64_t seed, Index threads) {
                const Contiguous<double> prices(unary, {self.sites()}, "unary", "float64");
                const Contiguous<bool> start(labels, {self.sites()}, "labels", "bool");
                const auto size = static_cast<std::size_t>(self.sites());
                auto best = std::make_unique<std::uint8_t[]>(size);
                for (std::size_t i = 0; i < size; ++i) best[i] = start.data()[i] != 0;
                Search::Done done;
                bool cancelled = false;
                at_work([&](const Poll& poll) {
                    try {
                        done = self.run(prices.data(), best.get(), {sweeps, seconds}, seed, threads,
                                        poll);
                    } catch (const Interrupted&) {
                        cancelled = Cancel::here();
                        if (!cancelled) throw;  // Ctrl-C
                    }
                });
                auto found = std::make_unique<bool[]>(size);  // also after a Cancel
                std::copy(best.get(), best.get() + size, found.get());
                return nb::make_tuple(array_owning(std::move(found), {self.sites()}), done.rounds,
                                      done.epochs, done.work, done.exact, cancelled);
            },
            nb::arg("unary"), nb::arg("labels"), nb::arg("sweeps"), nb::arg("seconds"),
            nb::arg("seed"), nb::arg("threads"),
            "Labels no worse than those given, in whole units, and what was done for them: rounds, "
            "epochs, work in visits, whether they are a minimum, and whether a Cancel ended it.");
}

}  // namespace dope
