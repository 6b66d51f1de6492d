// `worker sample`: a trained language model continues a text.
#ifndef RINGMASTER_WORKER_TRAIN_OUTPUT_SAMPLE_COMMAND_H_
#define RINGMASTER_WORKER_TRAIN_OUTPUT_SAMPLE_COMMAND_H_

namespace ringmaster {

// Runs the command; argv[0] is "worker sample". Writes the prompt and its
// continuation to standard output, errors to standard error. Returns the
// process's exit code.
int SampleCommand(int argc, char** argv);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_OUTPUT_SAMPLE_COMMAND_H_
