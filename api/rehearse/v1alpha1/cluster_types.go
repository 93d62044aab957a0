package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterKind is the kind of a Cluster.
const ClusterKind = "Cluster"

// Cluster describes a cluster that `rehearse up --config FILE` starts. Its metadata has only a name, the name of the cluster.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec,omitzero"`
}

// ClusterSpec has one field for each flag of `rehearse up`. A field that is not set has the default of its flag. Paths of
// files and directories are relative to the directory of the file that contains the Cluster.
type ClusterSpec struct {
	// Nodes is the number of simulated nodes (default 3, with From 0).
	Nodes *int `json:"nodes,omitempty"`
	// Kubeconfig is the kubeconfig to write to.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// From is a snapshot, whose objects exist when the cluster starts.
	From string `json:"from,omitempty"`
	// DataDir is the directory of an embedded etcd. Empty: objects are in memory.
	DataDir string `json:"dataDir,omitempty"`
	// EtcdServers are the URLs of an existing etcd cluster, and the other three its TLS files.
	EtcdServers  []string `json:"etcdServers,omitempty"`
	EtcdCAFile   string   `json:"etcdCAFile,omitempty"`
	EtcdCertFile string   `json:"etcdCertFile,omitempty"`
	EtcdKeyFile  string   `json:"etcdKeyFile,omitempty"`
	// BindAddress and Port are what the API server listens on.
	BindAddress string `json:"bindAddress,omitempty"`
	Port        *int   `json:"port,omitempty"`
	// Controllers are the controllers to run: "*" stands for the default, "name" enables one, and "-name" disables it.
	Controllers []string `json:"controllers,omitempty"`
	// Stages are files, directories or built-in files (builtin:NAME) of stages.
	Stages []string `json:"stages,omitempty"`
	// MetricsAddress is the address of the stage engine's metrics and probes.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	// FeatureGates, RuntimeConfig and AdmissionPlugins are settings of the components of Kubernetes, each entry as for the flag:
	// "Name=true", "resource.k8s.io/v1beta1=true", "Name" or "-Name".
	FeatureGates     []string `json:"featureGates,omitempty"`
	RuntimeConfig    []string `json:"runtimeConfig,omitempty"`
	AdmissionPlugins []string `json:"admissionPlugins,omitempty"`
	// AuditPolicy is a file with an audit policy, and AuditLog the file to append the events to.
	AuditPolicy string `json:"auditPolicy,omitempty"`
	AuditLog    string `json:"auditLog,omitempty"`
	// ServiceCIDR is the range of the cluster IPs of Services.
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// SchedulerConfig is a file with a KubeSchedulerConfiguration.
	SchedulerConfig string `json:"schedulerConfig,omitempty"`
	// NodeLeaseDuration is the duration of the leases of nodes (0: no leases).
	NodeLeaseDuration *metav1.Duration `json:"nodeLeaseDuration,omitempty"`
	// HPASyncPeriod is how often the horizontal pod autoscaler scales (default 15s).
	HPASyncPeriod *metav1.Duration `json:"hpaSyncPeriod,omitempty"`
	// Detach runs the cluster in the background.
	Detach *bool `json:"detach,omitempty"`
	// Timeout is how long the start in the background may take (default 2m, with From 1h).
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Verbosity and LogFormat (text, json) control the logs of Kubernetes on stderr.
	Verbosity *int   `json:"verbosity,omitempty"`
	LogFormat string `json:"logFormat,omitempty"`
}
