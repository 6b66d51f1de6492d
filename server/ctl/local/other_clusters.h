// Settings in the environment for other clusters must not decide for one that
// is started here.
#ifndef RINGMASTER_SERVER_CTL_LOCAL_OTHER_CLUSTERS_H_
#define RINGMASTER_SERVER_CTL_LOCAL_OTHER_CLUSTERS_H_

namespace ringmaster::ctl {

// Removes the variables that flags of coordinators and workers are read from
// and that a cluster of this process settles itself.
void ForgetOtherClusters();

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_LOCAL_OTHER_CLUSTERS_H_
