package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kinds in this package.
const GroupName = "kwok.x-k8s.io"

// The kinds.
const (
	// StageKind is the kind of a Stage object.
	StageKind = "Stage"
	// LogsKind and ClusterLogsKind name the log files of containers.
	LogsKind, ClusterLogsKind = "Logs", "ClusterLogs"
	// AttachKind and ClusterAttachKind name the files that attached clients receive.
	AttachKind, ClusterAttachKind = "Attach", "ClusterAttach"
	// ExecKind and ClusterExecKind allow commands in containers.
	ExecKind, ClusterExecKind = "Exec", "ClusterExec"
	// PortForwardKind and ClusterPortForwardKind define the targets of port-forward.
	PortForwardKind, ClusterPortForwardKind = "PortForward", "ClusterPortForward"
	// ResourceUsageKind and ClusterResourceUsageKind define the resource usage of containers.
	ResourceUsageKind, ClusterResourceUsageKind = "ResourceUsage", "ClusterResourceUsage"
	// MetricKind defines metrics of nodes.
	MetricKind = "Metric"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the types of this package under GroupVersion.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Stage{}, &StageList{},
		&Logs{}, &LogsList{}, &ClusterLogs{}, &ClusterLogsList{},
		&Attach{}, &AttachList{}, &ClusterAttach{}, &ClusterAttachList{},
		&Exec{}, &ExecList{}, &ClusterExec{}, &ClusterExecList{},
		&PortForward{}, &PortForwardList{}, &ClusterPortForward{}, &ClusterPortForwardList{},
		&ResourceUsage{}, &ResourceUsageList{}, &ClusterResourceUsage{}, &ClusterResourceUsageList{},
		&Metric{}, &MetricList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
