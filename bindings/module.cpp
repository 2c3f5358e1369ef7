// magis._core: text goes in, text comes out; a few plain views for reports. python/magis/_core.pyi
// documents it.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "magis/base/error.h"
#include "magis/graph/op_table.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of magis.";

  nb::object base = nb::module_::import_("magis.errors").attr("MagisError");
  nb::exception<magis::UserError>(m, "UserError", base);
  nb::exception<magis::InternalError>(m, "InternalError");

  magis::bind_profile(m);
  magis::bind_graph(m);
  magis::bind_axes(m);
  magis::bind_statements(m);
  magis::bind_plan(m);
  magis::bind_optimize(m);
  magis::bind_fission(m);
  magis::bind_rewriting(m);
  magis::bind_structure(m);

  m.def("in_place_forms", [] {
    nb::list forms;
    for (const magis::OpInfo* info : magis::known_operators()) {
      if (info->in_place.spelling.empty()) continue;
      forms.append(nb::make_tuple(info->name, std::string(info->in_place.spelling),
                                  std::string(info->in_place.out_argument),
                                  info->in_place.operands));
    }
    return forms;
  });
  m.def(
      "operator_purity",
      [](const std::string& name) {
        switch (magis::op_info(name).purity) {
          case magis::Purity::pure:
            return "pure";
          case magis::Purity::random:
            return "random";
          case magis::Purity::mutating:
            return "mutating";
          case magis::Purity::view:
            return "view";
          case magis::Purity::opaque:
            return "opaque";
        }
        return "opaque";
      },
      "name"_a);
  m.def("known_operators", [] {
    std::vector<std::string> names;
    for (const magis::OpInfo* info : magis::known_operators()) names.push_back(info->name);
    return names;
  });
}
