#include "server/coordinator/access/method_roles.h"

#include <array>

namespace ringmaster::coordinator {
namespace {

constexpr RoleSet kReaders = {Role::kViewer, Role::kSubmitter, Role::kOperator};
constexpr RoleSet kSubmitters = {Role::kSubmitter, Role::kOperator};
constexpr RoleSet kOperators = {Role::kOperator};
constexpr RoleSet kMembers = {Role::kWorker, Role::kServer};
constexpr RoleSet kAll = {Role::kViewer, Role::kSubmitter, Role::kOperator,
                          Role::kWorker, Role::kServer};

constexpr std::array<MethodRoles, 23> kTable = {{
    // A worker's hello may also tell of the job that it holds; SessionReactor
    // checks that the hello's role is one of the caller's.
    {"/ringmaster.v1.CoordinatorService/Session", kMembers},
    {"/ringmaster.v1.CoordinatorService/ListMembers", kMembers},
    {"/ringmaster.v1.JobService/SubmitJob", kSubmitters},
    {"/ringmaster.v1.JobService/GetJob", kReaders},
    {"/ringmaster.v1.JobService/ListJobs", kReaders},
    {"/ringmaster.v1.JobService/WatchJob", kReaders},
    // A submitter, only its own: the core knows whose a job is.
    {"/ringmaster.v1.JobService/CancelJob", kSubmitters},
    {"/ringmaster.v1.JobService/ChangeJob", kSubmitters},
    {"/ringmaster.v1.JobService/ListEvents", kReaders},
    {"/ringmaster.v1.JobService/GetFlightRecord", kReaders},
    {"/ringmaster.v1.JobService/GetTrace", kReaders},
    {"/ringmaster.v1.JobService/ExplainJob", kReaders},
    {"/ringmaster.v1.PoolService/Cordon", kOperators},
    {"/ringmaster.v1.PoolService/Uncordon", kOperators},
    {"/ringmaster.v1.PoolService/SetQueues", kOperators},
    {"/ringmaster.v1.StatusService/GetStatus", kReaders},
    {"/ringmaster.v1.StatusService/WatchStatus", kReaders},
    {"/ringmaster.v1.StatusService/GetLogs", kReaders},
    {"/ringmaster.v1.StatusService/ListAudit", kOperators},
    {"/grpc.health.v1.Health/Check", kAll},
    {"/grpc.health.v1.Health/Watch", kAll},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     kReaders},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", kReaders},
}};

}  // namespace

std::span<const MethodRoles> MethodTable() { return kTable; }

}  // namespace ringmaster::coordinator
