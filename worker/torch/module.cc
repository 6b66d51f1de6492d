// The Python module ringmaster_torch._C; __init__.py is what scripts use.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <chrono>

#include "worker/torch/process_group.h"

namespace ringmaster {
namespace {

namespace py = pybind11;

using GroupClass = py::class_<ProcessGroupRingmaster, c10d::ProcessGroup,
                              c10::intrusive_ptr<ProcessGroupRingmaster>>;

}  // namespace
}  // namespace ringmaster

PYBIND11_MODULE(_C, module) {
  // They may wait for others, and what they run may take the interpreter's lock.
  const auto unlocked =
      ringmaster::py::call_guard<ringmaster::py::gil_scoped_release>();
  // Its base class is Python's from there.
  ringmaster::py::module_::import("torch._C._distributed_c10d");
  ringmaster::py::register_exception<ringmaster::OthersDecline>(
      module, "OthersDecline", PyExc_RuntimeError);
  module.def("set_roots_have_stand_ins", [](bool have) {
    ringmaster::ProcessGroupRingmaster::roots_have_stand_ins = have;
  });
  // Meeting the other ranks takes until the last one has come, so the
  // interpreter's lock is not held meanwhile.
  ringmaster::GroupClass(module, "ProcessGroupRingmaster")
      .def(ringmaster::py::init<const c10::intrusive_ptr<c10d::Store>&, int,
                                int, std::chrono::milliseconds>(),
           ringmaster::py::arg("store"), ringmaster::py::arg("rank"),
           ringmaster::py::arg("size"), ringmaster::py::arg("timeout"),
           ringmaster::py::call_guard<ringmaster::py::gil_scoped_release>())
      .def("tell_met", &ringmaster::ProcessGroupRingmaster::TellMet)
      .def("loss_text", &ringmaster::ProcessGroupRingmaster::LossText)
      .def_property_readonly("is_joining",
                             &ringmaster::ProcessGroupRingmaster::is_joining)
      .def("join", &ringmaster::ProcessGroupRingmaster::Join, unlocked)
      .def("take_newcomers", &ringmaster::ProcessGroupRingmaster::TakeNewcomers,
           unlocked)
      .def("admit", &ringmaster::ProcessGroupRingmaster::Admit, unlocked)
      .def("contributors", &ringmaster::ProcessGroupRingmaster::Contributors,
           unlocked)
      .def("lowest_settled", &ringmaster::ProcessGroupRingmaster::LowestSettled,
           unlocked)
      .def("settle", &ringmaster::ProcessGroupRingmaster::Settle, unlocked)
      .def("broadcast_settled",
           &ringmaster::ProcessGroupRingmaster::BroadcastSettled, unlocked)
      .def("answer", &ringmaster::ProcessGroupRingmaster::Answer);
}
