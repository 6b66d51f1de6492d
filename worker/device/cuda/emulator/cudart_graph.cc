// The CUDA runtime's functions about stream capture and graphs.
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/device/cuda/emulator/graph.h"
#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

// A graph that can be launched. Its launches are one after another, in whichever
// streams.
struct GraphExec {
  std::shared_ptr<const Graph> graph;
  std::vector<int> order;
  Mutex running;
};

// The objects behind handles.
class GraphTable {
 public:
  static GraphTable& Get() {
    static GraphTable& table = *new GraphTable();
    return table;
  }

  cudaGraph_t Add(std::shared_ptr<const Graph> graph) {
    MutexLock lock(mutex_);
    const auto handle =
        reinterpret_cast<cudaGraph_t>(const_cast<Graph*>(graph.get()));
    graphs_[handle] = std::move(graph);
    return handle;
  }
  cudaGraphExec_t Add(std::shared_ptr<GraphExec> exec) {
    MutexLock lock(mutex_);
    const auto handle = reinterpret_cast<cudaGraphExec_t>(exec.get());
    execs_[handle] = std::move(exec);
    return handle;
  }
  std::shared_ptr<const Graph> Find(cudaGraph_t handle) {
    MutexLock lock(mutex_);
    const auto it = graphs_.find(handle);
    return it == graphs_.end() ? nullptr : it->second;
  }
  std::shared_ptr<GraphExec> Find(cudaGraphExec_t handle) {
    MutexLock lock(mutex_);
    const auto it = execs_.find(handle);
    return it == execs_.end() ? nullptr : it->second;
  }
  bool Remove(cudaGraph_t handle) {
    MutexLock lock(mutex_);
    return graphs_.erase(handle) == 1;
  }
  bool Remove(cudaGraphExec_t handle) {
    MutexLock lock(mutex_);
    return execs_.erase(handle) == 1;
  }

 private:
  Mutex mutex_;
  std::map<cudaGraph_t, std::shared_ptr<const Graph>> graphs_
      GUARDED_BY(mutex_);
  std::map<cudaGraphExec_t, std::shared_ptr<GraphExec>> execs_
      GUARDED_BY(mutex_);
};

// `marks` has one for each node that records an event. A lost device skips all
// but those, for whom others may wait.
void Run(GraphExec& exec, const std::map<int, std::shared_ptr<Mark>>& marks) {
  MutexLock lock(exec.running);
  const Device& device = Runtime::Get().device(exec.graph->device);
  for (const int i : exec.order) {
    const auto mark = marks.find(i);
    if (mark != marks.end()) {
      mark->second->Reach();
    } else if (device.lost == cudaSuccess) {
      exec.graph->nodes[i].work();
    }
  }
}

cudaError_t Launch(const std::shared_ptr<GraphExec>& exec,
                   const std::shared_ptr<Stream>& stream) {
  Runtime& runtime = Runtime::Get();
  if (runtime.captures().IsCapturing(*stream)) {
    return runtime.captures().Fail(*stream, cudaErrorStreamCaptureUnsupported);
  }
  std::map<int, std::shared_ptr<Mark>> marks;
  for (size_t i = 0; i < exec->graph->nodes.size(); ++i) {
    if (exec->graph->nodes[i].record != nullptr) {
      marks[static_cast<int>(i)] = std::make_shared<Mark>();
    }
  }
  // Waiting for such an event from now on means waiting for this launch.
  for (const auto& [i, mark] : marks) {
    runtime.SetMark(exec->graph->nodes[i].record, mark);
  }
  return runtime.Queue(
      stream, [exec, marks = std::move(marks)] { Run(*exec, marks); },
      /*always=*/true);
}

template <typename Function>
cudaError_t CallWithStream(cudaStream_t handle, Function function) {
  return Call([&]() -> cudaError_t {
    const auto stream = Runtime::Get().FindStream(handle, CurrentDevice());
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return function(stream);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle,
                                   cudaStreamCaptureMode mode) {
  return CallWithStream(handle, [&](const auto& stream) {
    Runtime& runtime = Runtime::Get();
    if (stream == runtime.device(stream->device()).null_stream) {
      return cudaErrorStreamCaptureUnsupported;
    }
    return runtime.captures().Begin(*stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return CallWithStream(handle, [&](const auto& stream) {
    *graph = nullptr;
    std::shared_ptr<const Graph> captured;
    const cudaError_t error = Runtime::Get().captures().End(*stream, &captured);
    if (error == cudaSuccess) {
      *graph = GraphTable::Get().Add(std::move(captured));
    }
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus* status) {
  return CallWithStream(handle, [&](const auto& stream) {
    *status = Runtime::Get().captures().Status(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Call([&] {
    std::swap(*mode, ThreadCaptureMode());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t handle,
                                 unsigned long long /*flags*/) {
  return Call([&] {
    std::shared_ptr<const Graph> graph = GraphTable::Get().Find(handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_shared<GraphExec>();
    made->order = AdverseOrder(*graph);
    made->graph = std::move(graph);
    *exec = GraphTable::Get().Add(std::move(made));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle,
                            cudaStream_t stream_handle) {
  return CallWithStream(stream_handle, [&](const auto& stream) {
    const auto exec = GraphTable::Get().Find(handle);
    if (exec == nullptr) return cudaErrorInvalidValue;
    return Launch(exec, stream);
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream) {
  return CallWithStream(stream, [&](const auto& /*stream*/) {
    return GraphTable::Get().Find(handle) == nullptr ? cudaErrorInvalidValue
                                                     : cudaSuccess;
  });
}

// Not emulated: a caller instantiates again, as it must on a GPU too when the
// graph's shape has changed.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t /*exec*/, cudaGraph_t /*graph*/,
                                cudaGraphExecUpdateResultInfo* result) {
  return Call([&] {
    if (result != nullptr) {
      *result = {};
      result->result = cudaGraphExecUpdateError;
    }
    return cudaErrorGraphExecUpdateFailure;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call([&] {
    return GraphTable::Get().Remove(graph) ? cudaSuccess
                                           : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Call([&] {
    return GraphTable::Get().Remove(exec) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // extern "C"
}  // namespace ringmaster::cuda_emulator
