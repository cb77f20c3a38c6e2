#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "at_work.h"
#include "bind.h"
#include "bind_ends.h"
#include "block_flow.h"

namespace dope {

namespace {

std::size_t checked_block(const BlockFlow& flow, std::int64_t k) {
    if (k < 0 || k >= static_cast<std::int64_t>(flow.blocks())) {
        throw std::invalid_argument("block " + std::to_string(k) +
                                    " was asked for: expected 0 to " +
                                    std::to_string(flow.blocks() - 1));
    }
    return static_cast<std::size_t>(k);
}

// A call for one block, without the GIL.
template <class Work>
auto for_block(Work work) {
    return [work](BlockFlow& self, std::int64_t k) {
        const std::size_t block = checked_block(self, k);
        return at_work([&](const Poll& poll) { return work(self, block, poll); });
    };
}

template <class Work>
nb::object bool_array(std::size_t sites, Work&& work) {
    auto out = std::make_unique<bool[]>(sites);
    at_work([&](const Poll& poll) { work(out.get(), poll); });
    return nb::cast(array_owning(std::move(out), {static_cast<Index>(sites)}));
}

nb::tuple flow_arrays(const std::vector<WallFlow>& flows) {
    const auto column = [&](std::int64_t WallFlow::* field) {
        return fresh_array<std::int64_t>({static_cast<Index>(flows.size())},
                                         [&](std::int64_t* out) {
                                             for (const WallFlow& flow : flows)
                                                 *out++ = flow.*field;
                                         });
    };
    return nb::make_tuple(column(&WallFlow::first), column(&WallFlow::second),
                          column(&WallFlow::amount));
}

std::vector<WallFlow> flows_from(const nb::object& first, const nb::object& second,
                                 const nb::object& amount, std::int64_t sites) {
    const AnyArray found = array_from(first, "first");
    const Index count = found.ndim() == 1 ? static_cast<Index>(found.shape(0)) : 0;
    const Contiguous<std::int64_t> firsts(first, {count}, "first", "int64");
    const Contiguous<std::int64_t> seconds(second, {count}, "second", "int64");
    const Contiguous<std::int64_t> amounts(amount, {count}, "amount", "int64");
    std::vector<WallFlow> flows;
    for (Index k = 0; k < count; ++k) {
        const WallFlow flow{firsts.data()[k], seconds.data()[k], amounts.data()[k]};
        if (std::min(flow.first, flow.second) < 0 || std::max(flow.first, flow.second) >= sites) {
            throw std::invalid_argument("a flow runs from site " + std::to_string(flow.first) +
                                        " to " + std::to_string(flow.second) + ": expected 0 to " +
                                        std::to_string(sites - 1));
        }
        flows.push_back(flow);
    }
    return flows;
}

std::vector<std::int64_t> sites_from(const nb::object& given, std::int64_t sites) {
    const AnyArray found = array_from(given, "sites");
    const Index count = found.ndim() == 1 ? static_cast<Index>(found.shape(0)) : 0;
    const Contiguous<std::int64_t> places(given, {count}, "sites", "int64");
    for (Index k = 0; k < count; ++k) {
        if (places.data()[k] < 0 || places.data()[k] >= sites) {
            throw std::invalid_argument("a site is " + std::to_string(places.data()[k]) +
                                        ": expected 0 to " + std::to_string(sites - 1));
        }
    }
    return {places.data(), places.data() + count};
}

std::int64_t all_sites(const BlockFlow& self) {
    std::size_t sites = 0;
    for (std::size_t k = 0; k < self.blocks(); ++k) sites += self.sites(k);
    return static_cast<std::int64_t>(sites);
}

// What a block does whose neighbors live elsewhere.
void bind_surrounded(nb::class_<BlockFlow>& flow) {
    flow.def(
            "save",
            [](const BlockFlow& self, std::int64_t k) {
                const std::size_t block = checked_block(self, k);
                const auto saved = at_work([&](const Poll&) { return self.save(block); });
                return nb::bytes(saved.data(), saved.size());
            },
            nb::arg("k"),
            "What a solved block knows beside the stores; with those, all that its next call goes "
            "on from.")
        .def(
            "load",
            [](BlockFlow& self, std::int64_t k, const nb::bytes& saved) {
                const std::size_t block = checked_block(self, k);
                at_work([&](const Poll&) { self.load(block, saved.c_str(), saved.size()); });
            },
            nb::arg("k"), nb::arg("saved"),
            "What save() gave, for a network of the same shape, divided alike and finished, with "
            "those stores.")
        .def(
            "stores",
            [](nb::handle_t<BlockFlow> self) {
                nb::list found;
                for (const std::span<std::byte> store : nb::cast<BlockFlow&>(self).stores()) {
                    found.append(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(
                        store.data(), {store.size()}, self));
                }
                return found;
            },
            "Where excesses, residuals and forests lie: arrays of bytes, to be written elsewhere "
            "and read back.")
        .def(
            "hold",
            [](BlockFlow& self, std::int64_t k, const nb::object& held) {
                const std::size_t block = checked_block(self, k);
                const Contiguous<std::uint8_t> labels(held, {all_sites(self)}, "held", "uint8");
                at_work([&](const Poll&) { self.hold(block, labels.data()); });
            },
            nb::arg("k"), nb::arg("held"),
            "Flow over walls at sites whose labels are fixed (1: label 0, 2: label 1, else 0).")
        .def(
            "carry",
            [](BlockFlow& self, std::int64_t k, const nb::object& first, const nb::object& second,
               const nb::object& amount) {
                const std::size_t block = checked_block(self, k);
                const auto flows = flows_from(first, second, amount, all_sites(self));
                at_work([&](const Poll&) { self.carry(block, flows); });
            },
            nb::arg("k"), nb::arg("first"), nb::arg("second"), nb::arg("amount"),
            "Let flow run from sites of a block (first) to sites of others (second).")
        .def(
            "wall_flows",
            [](const BlockFlow& self, std::int64_t k) {
                const std::size_t block = checked_block(self, k);
                return flow_arrays(at_work([&](const Poll&) { return self.wall_flows(block); }));
            },
            nb::arg("k"), "(sites of a block, sites of others, what flows to these).")
        .def(
            "surround",
            [](BlockFlow& self, const nb::object& sites, const nb::object& walls) {
                const auto places = sites_from(sites, all_sites(self));
                const Contiguous<std::int32_t> found(walls, {static_cast<Index>(places.size())},
                                                     "walls", "int32");
                std::vector<Distance> around;
                for (std::size_t i = 0; i < places.size(); ++i) {
                    if (found.data()[i] < 0) {
                        throw std::invalid_argument("a distance is " +
                                                    std::to_string(found.data()[i]) +
                                                    ": expected 0 or more walls");
                    }
                    around.push_back({places[i], found.data()[i]});
                }
                at_work([&](const Poll&) { self.surround(around); });
            },
            nb::arg("sites"), nb::arg("walls"),
            "How many walls lie between sites of others and a sink; all else reaches none.")
        .def(
            "measure_from",
            [](BlockFlow& self, std::int64_t k, std::int32_t most) {
                const std::size_t block = checked_block(self, k);
                at_work([&](const Poll&) { self.measure_from(block, most); });
            },
            nb::arg("k"), nb::arg("most"),
            "Find how many walls lie between a block's sites and a sink, by what surrounds it.")
        .def(
            "border",
            [](const BlockFlow& self, std::int64_t k) {
                const std::size_t block = checked_block(self, k);
                const auto found = at_work([&](const Poll&) { return self.border(block); });
                const auto column = [&](std::int32_t Distance::* field) {
                    return fresh_array<std::int32_t>({static_cast<Index>(found.size())},
                                                     [&](std::int32_t* out) {
                                                         for (const Distance& one : found)
                                                             *out++ = one.*field;
                                                     });
                };
                const auto sites = fresh_array<std::int64_t>({static_cast<Index>(found.size())},
                                                             [&](std::int64_t* out) {
                                                                 for (const Distance& one : found)
                                                                     *out++ = one.site;
                                                             });
                return nb::make_tuple(sites, column(&Distance::walls), column(&Distance::side));
            },
            nb::arg("k"),
            "(sites of a block that have pairs over its walls, how many walls lie between each "
            "and a sink, or -1, and its side: 1 the sources', -1 the sinks', 0 neither).")
        .def(
            "reach",
            [](BlockFlow& self, std::int64_t k, const nb::object& sites) {
                const std::size_t block = checked_block(self, k);
                const auto from = sites_from(sites, all_sites(self));
                const auto found = at_work([&](const Poll&) { return self.reach(block, from); });
                return fresh_array<std::int64_t>(
                    {static_cast<Index>(found.size())},
                    [&](std::int64_t* out) { std::copy(found.begin(), found.end(), out); });
            },
            nb::arg("k"), nb::arg("sites"),
            "Sources elsewhere reach these sites of a block; the sites of others that are reached "
            "from it then. labels(of_all=True) are known after that.");
}

std::vector<Point> cuts_from(const nb::sequence& cuts, const Point& shape) {
    std::vector<Point> found;
    for (const nb::handle axis : cuts) {
        Point places;
        for (const nb::handle place : axis) places.push_back(nb::cast<Index>(place));
        found.push_back(places);
    }
    bool fits = found.size() == shape.size();
    for (std::size_t a = 0; fits && a < shape.size(); ++a) {
        Index before = 0;
        for (const Index place : found[a]) {
            fits &= before < place && place < shape[a];
            before = place;
        }
    }
    if (!fits) {
        throw std::invalid_argument("the cuts do not fit the grid " + text(shape) +
                                    ": expected rising places inside it for every axis");
    }
    return found;
}

std::vector<std::int32_t> members_from(const nb::object& members, std::int64_t sites,
                                       std::int64_t number) {
    const Contiguous<std::int32_t> found(members, {sites}, "members", "int32");
    std::vector<std::int32_t> out(found.data(), found.data() + sites);
    for (const std::int32_t block : out) {
        if (block < 0 || block >= number) {
            throw std::invalid_argument("a site is in block " + std::to_string(block) +
                                        ": expected 0 to " + std::to_string(number - 1));
        }
    }
    return out;
}

}  // namespace

void bind_blocks(nb::module_& m) {
    nb::class_<BlockFlow> flow(m, "BlockFlow", "One residual graph, searched block by block.");
    flow.def_static(
            "grid",
            [](const GridWeights& weights, double scale, int bits, const nb::sequence& cuts) {
                return block_grid_flow(weights, scale, bits, cuts_from(cuts, weights.shape()));
            },
            nb::arg("weights"), nb::arg("scale"), nb::arg("bits"), nb::arg("cuts"),
            nb::keep_alive<0, 1>(), "The blocks of a grid between cuts; to be filled.")
        .def_static(
            "graph",
            [](std::int64_t sites, const nb::object& edges, const nb::object& weights, double scale,
               int bits, const nb::object& members, std::int64_t number) {
                const EdgeArrays pairs(edges);
                const Contiguous<double> values(weights, {pairs.count()}, "weights", "float64");
                auto of_sites = members_from(members, sites, number);
                return at_work([&](const Poll&) {
                    return block_graph_flow(sites, pairs.ends(), values.data(),
                                            static_cast<std::size_t>(pairs.count()), scale, bits,
                                            std::move(of_sites), static_cast<std::size_t>(number));
                });
            },
            nb::arg("sites"), nb::arg("edges"), nb::arg("weights"), nb::arg("scale"),
            nb::arg("bits"), nb::arg("members"), nb::arg("number"),
            "The blocks of a graph; members[i] is the block of site i.")
        .def_prop_ro("blocks", &BlockFlow::blocks)
        .def_prop_ro("parts", &BlockFlow::parts, "How many parts there are to fill.")
        .def_prop_ro("bytes", &BlockFlow::bytes, "Bytes held, without the lists of work at hand.")
        .def("group", [](const BlockFlow& self,
                         std::int64_t k) { return self.group(checked_block(self, k)); })
        .def("members", [](const BlockFlow& self,
                           std::int64_t g) { return self.members(checked_block(self, g)); })
        .def("neighbors", [](const BlockFlow& self, std::int64_t k) {
            return self.neighbors(checked_block(self, k));
        });

    flow.def(
            "fill",
            [](BlockFlow& self, std::size_t part) {
                at_work([&](const Poll& poll) { self.fill(part, poll); });
            },
            nb::arg("part"), "Compute the capacities of a part.")
        .def("finish", &BlockFlow::finish, "When all parts are filled.")
        .def("wall_in",
             for_block([](BlockFlow& self, std::size_t k, const Poll&) { self.wall_in(k); }),
             nb::arg("k"), "Shut the arcs that leave a block.")
        .def(
            "price",
            [](BlockFlow& self, std::int64_t k, const nb::object& unary, const nb::object& before) {
                const std::size_t block = checked_block(self, k);
                const Point sites{static_cast<Index>(self.sites(block))};
                const Contiguous<double> values(unary, sites, "unary", "float64");
                std::optional<Contiguous<double>> old;
                if (!before.is_none()) old.emplace(before, sites, "before", "float64");
                at_work([&](const Poll&) {
                    self.price(block, values.data(), old ? old->data() : nullptr);
                });
            },
            nb::arg("k"), nb::arg("unary"), nb::arg("before") = nb::none(),
            "Give a block its unary (flat), instead of an earlier one or of none.")
        .def(
            "balance",
            [](BlockFlow& self, std::int64_t k, bool shifted) {
                const std::size_t block = checked_block(self, k);
                at_work([&](const Poll&) { self.balance(block, shifted); });
            },
            nb::arg("k"), nb::arg("shifted"),
            "Let flow run inside a block of a grid that makes its excesses less, before solve().")
        .def("solve", for_block([](BlockFlow& self, std::size_t g, const Poll& poll) {
                 self.solve(g, poll);
             }),
             nb::arg("g"), "Minimize a group with the flow over its walls as it is.")
        .def(
            "labels",
            [](BlockFlow& self, std::int64_t k, bool of_all) {
                const std::size_t block = checked_block(self, k);
                return bool_array(self.sites(block),
                                  [&](bool* out, const Poll&) { self.labels(block, of_all, out); });
            },
            nb::arg("k"), nb::arg("of_all") = false,
            "A block's part of its group's smallest minimizer or, once certified, of everyone's.")
        .def(
            "bracket",
            [](BlockFlow& self, std::int64_t g, bool outside) {
                const std::size_t group = checked_block(self, g);
                std::size_t sites = 0;
                for (const std::size_t k : self.members(group)) sites += self.sites(k);
                return bool_array(sites, [&](bool* out, const Poll& poll) {
                    self.bracket(group, outside, out, poll);
                });
            },
            nb::arg("g"), nb::arg("outside"),
            "The smallest minimizer of a group with label 0 outside, or the largest with label 1, "
            "one block after another.")
        .def(
            "bound",
            [](const BlockFlow& self, std::int64_t k) {
                const std::size_t block = checked_block(self, k);
                return whole_number(at_work([&](const Poll&) { return self.bound(block); }));
            },
            nb::arg("k"), "The minimum of a block, in units of 1 / scale.")
        .def(
            "survey",
            [](BlockFlow& self, std::int64_t k) {
                const std::size_t block = checked_block(self, k);
                const Survey found = at_work([&](const Poll&) { return self.survey(block); });
                return nb::make_tuple(whole_number(found.gap), found.conflicts, found.labelled);
            },
            nb::arg("k"),
            "What a block's labels cost at its walls beyond its bound, the number of arcs in "
            "conflict, and of its sites that differ from a neighbor over a wall.")
        .def("discharge", for_block([](BlockFlow& self, std::size_t g, const Poll& poll) {
                 self.discharge(g, poll);
             }),
             nb::arg("g"), "Send excess over the walls, towards the nearest sinks.")
        .def("check", for_block([](BlockFlow& self, std::size_t g, const Poll&) { self.check(g); }),
             nb::arg("g"), "Recompute slowly what must hold; RuntimeError where it does not.");

    flow.def(
            "certify",
            [](BlockFlow& self) { return at_work([&](const Poll&) { return self.certify(); }); },
            "Whether no path is left, where no survey found a conflict.")
        .def(
            "push",
            [](BlockFlow& self) {
                return whole_number(at_work([&](const Poll&) { return self.push(); }));
            },
            "Push flow over every conflict; how much.")
        .def("changed", &BlockFlow::changed, "The groups to solve again.")
        .def(
            "disputes",
            [](const BlockFlow& self) {
                nb::list found;
                for (const Dispute& d : self.disputes()) {
                    found.append(nb::make_tuple(d.one, d.other, d.amount));
                }
                return found;
            },
            "(group, group, what could flow over their conflicts) for all that disagree.")
        .def(
            "merge",
            [](BlockFlow& self, std::int64_t g, std::int64_t h) {
                const std::size_t one = checked_block(self, g);
                const std::size_t other = checked_block(self, h);
                if (one == other || self.group(one) != one || self.group(other) != other) {
                    throw std::invalid_argument("groups " + std::to_string(g) + " and " +
                                                std::to_string(h) +
                                                " cannot be merged: expected two groups");
                }
                const nb::gil_scoped_release release;
                self.merge(one, other);
            },
            nb::arg("g"), nb::arg("h"), "Make two groups one, named by the lower.")
        .def(
            "measure", [](BlockFlow& self) { at_work([&](const Poll&) { self.measure(); }); },
            "Find how many walls lie between every site and a sink; before discharges.")
        .def("part", for_block([](BlockFlow& self, std::size_t k, const Poll&) { self.part(k); }),
             nb::arg("k"),
             "Take a block's pairs between different labels, once certified, out of the network.")
        .def("regroup", &BlockFlow::regroup,
             "After all blocks are parted: each is a group by itself again, to be walled in.")
        .def("deliver", &BlockFlow::deliver, "What was discharged arrives.")
        .def(
            "flows",
            [](const BlockFlow& self, std::int64_t k) {
                const std::size_t block = checked_block(self, k);
                return flow_arrays(at_work([&](const Poll&) { return self.flows(block); }));
            },
            nb::arg("k"),
            "(sites of a block, later sites elsewhere, what flows from the former to the latter).")
        .def(
            "pushed", [](const BlockFlow& self) { return flow_arrays(self.pushed()); },
            "The same for all blocks, while nothing was merged or discharged.")
        .def(
            "impose",
            [](BlockFlow& self, const nb::object& first, const nb::object& second,
               const nb::object& amount,
               std::int64_t sites) { self.impose(flows_from(first, second, amount, sites)); },
            nb::arg("first"), nb::arg("second"), nb::arg("amount"), nb::arg("sites"),
            "Let flow run over walls before anything is solved.");
    bind_surrounded(flow);
}

}  // namespace dope
