package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "rehearse-k8s.github.io", Version: "v1alpha1"}

// ScenarioKind is the kind of a Scenario.
const ScenarioKind = "Scenario"

// Scenario describes a test: the controllers, the cluster, the steps of the user, the invariants, and the
// faults.
type Scenario struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ScenarioSpec `json:"spec"`
}

// ScenarioSpec is the content of a Scenario.
type ScenarioSpec struct {
	// Description is for people: one or two sentences.
	Description string `json:"description,omitempty"`
	// Cluster is the state of the cluster before a run.
	Cluster ScenarioCluster `json:"cluster,omitzero"`
	// Clients are the programs under test. Each has its own listener, whose faults affect only that client.
	// One client may have neither command nor builtin: its command is given on the command line, after "--".
	Clients []Client `json:"clients"`
	// Steps are the actions of the user, in order. After the last one, the run is checked when it is
	// quiescent.
	Steps []Step `json:"steps,omitempty"`
	// Invariants are the conditions that must hold.
	Invariants Invariants `json:"invariants,omitzero"`
	// Faults restrict the faults of the search.
	Faults Faults `json:"faults,omitzero"`
	// Budget limits the search.
	Budget Budget `json:"budget,omitzero"`
}

// ScenarioCluster is the state of the cluster before a run.
type ScenarioCluster struct {
	// Nodes is the number of simulated nodes, which are ready at once (default 2).
	Nodes *int `json:"nodes,omitempty"`
	// Controllers run alongside the clients, without faults: names of kube-controller-manager's controllers,
	// and stage (the kubelets of simulated nodes), scheduler, job and cloneset. Default: stage and scheduler.
	// An empty list means no controllers, so it is not omitted.
	Controllers []string `json:"controllers,omitzero"`
	// Stages are stage files for the kubelets, in place of node-fast and pod-fast. Paths are relative to the
	// scenario's file; builtin:NAME is a built-in file.
	Stages []string `json:"stages,omitempty"`
	// Objects exist before each run: CustomResourceDefinitions, namespaces, accounts and other objects that
	// the clients need.
	Objects []Manifest `json:"objects,omitempty"`
}

// Manifest contains objects, in a file or inline. Set exactly one field.
type Manifest struct {
	// File contains one or more YAML or JSON documents. Its path is relative to the scenario's file;
	// builtin:cloneset defines the kind CloneSet of apps.kruise.io.
	File string `json:"file,omitempty"`
	// Object is one object.
	Object json.RawMessage `json:"object,omitempty"`
}

// Client is a program under test.
type Client struct {
	// Name identifies the client in faults, records and reports.
	Name string `json:"name"`
	// Command is the program and its arguments, with these placeholders: {{kubeconfig}} is the client's
	// kubeconfig file, {{namespace}} the namespace in that file, {{dir}} an empty directory of this instance,
	// {{port}} a free port of the loopback interface ({{port:x}} another one for each x), and {{name}} the
	// name of the client. KUBECONFIG is set to the same file.
	Command []string `json:"command,omitempty"`
	// Builtin runs a built-in controller in a process of its own, in place of a command: job, cloneset, stage
	// (the stage engine, with the stages of the cluster), or a name of kube-controller-manager's controllers; upstream-job is the upstream Job controller.
	Builtin string `json:"builtin,omitempty"`
	// FeatureGates are feature gates for a builtin of kube-controller-manager.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Env is added to the environment of the command.
	Env []EnvVar `json:"env,omitempty"`
	// Dir is the working directory of the command, relative to the scenario's file (default: the working
	// directory of rehearse). Env and Dir apply to commands only.
	Dir string `json:"dir,omitempty"`
	// As is the identity of the client: its RBAC rights apply to all requests of the client. Default: a
	// member of system:masters, who has all rights.
	As *Identity `json:"as,omitempty"`
	// LeaderElection is none for a client that runs without leader election, so that two instances may run at
	// once, as in a rolling update: the fault overlap is tried only then. Default: lease.
	LeaderElection string `json:"leaderElection,omitempty"`
}

// Identity is a user of the API. Set exactly one of ServiceAccount and User.
type Identity struct {
	// ServiceAccount is namespace/name.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// User is a user name, and Groups are groups of the user in addition to system:authenticated.
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// EnvVar is one environment variable of a client. Its value may contain the placeholders of commands.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Step is one action of the user. Set exactly one field.
type Step struct {
	// Apply applies objects as `kubectl apply --server-side --force-conflicts` does.
	Apply *Manifest `json:"apply,omitempty"`
	// Create creates objects.
	Create *Manifest `json:"create,omitempty"`
	// Delete deletes an object, in the background as kubectl does. An object that does not exist is not an
	// error.
	Delete *Delete `json:"delete,omitempty"`
	// Patch patches an object.
	Patch *Patch `json:"patch,omitempty"`
	// Wait waits until an invariant holds.
	Wait *Wait `json:"wait,omitempty"`
	// Settle waits until no actor has written anything for a while.
	Settle *Settle `json:"settle,omitempty"`
}

// Reference names an object, or all objects of a kind that match a selector.
type Reference struct {
	// Resource is the resource with its group, as for kubectl: "pods", "jobs.batch".
	Resource string `json:"resource"`
	// Namespace defaults to default if the resource is namespaced.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Selector is a label selector, in place of a name: all objects that match.
	Selector string `json:"selector,omitempty"`
}

// Delete deletes objects.
type Delete struct {
	Reference `json:",inline"`
	// Propagation is Background (default), Foreground or Orphan.
	Propagation metav1.DeletionPropagation `json:"propagation,omitempty"`
}

// Patch patches objects.
type Patch struct {
	Reference `json:",inline"`
	// Type is merge (default), strategic or json.
	Type string `json:"type,omitempty"`
	// Patch is the content of the patch.
	Patch json.RawMessage `json:"patch"`
	// Subresource is status, scale or another one.
	Subresource string `json:"subresource,omitempty"`
}

// Wait waits until an invariant holds. A run in which it does not hold in time fails.
type Wait struct {
	Invariant `json:",inline"`
	// Within limits the wait (default 30s).
	Within *metav1.Duration `json:"within,omitempty"`
}

// Settle waits until no actor has written anything for a while.
type Settle struct {
	// Within limits the wait (default 30s); then the next step follows in any case.
	Within *metav1.Duration `json:"within,omitempty"`
}

// Invariants are the conditions that must hold.
type Invariants struct {
	// Always is checked after every write by any actor.
	Always []Invariant `json:"always,omitempty"`
	// Eventually is checked after the last step.
	Eventually []Eventually `json:"eventually,omitempty"`
	// Sometimes must hold at some moment of some run: it shows that the scenario reaches the state that it
	// tests.
	Sometimes []Invariant `json:"sometimes,omitempty"`
	// EndsVary: runs may end in different states without any fault. Then the final state is not compared with
	// that of runs without faults.
	EndsVary bool `json:"endsVary,omitempty"`
	// Ignore are fields that are not compared with those of runs without faults.
	Ignore []Ignored `json:"ignore,omitempty"`
	// Disable turns automatic invariants off, by their names: EndState, ObservedGeneration,
	// Quiescence, Deleted, NoOrphans, UniqueOwnerUID, HotLoop, InvalidWrites, Claims, Successors, LostUpdates, Conditions, StaleOwnWrites.
	Disable []string `json:"disable,omitempty"`
}

// Ignored selects a field of all objects of a resource.
type Ignored struct {
	// Resource is the resource with its group, as for kubectl: "pods", "jobs.batch".
	Resource string `json:"resource"`
	// Path is dotted, as in status.hostIP, metadata.annotations[example.com/checksum] or
	// status.endpoints[*].nodeName; fields below it are included. Default: the whole object.
	Path string `json:"path,omitempty"`
}

// Invariant is a CEL expression or a ready-made oracle. Set exactly one of CEL and Oracle.
type Invariant struct {
	// Name is a sentence for people; default: the name of the oracle, or the expression.
	Name string `json:"name,omitempty"`
	// CEL is an expression that is true while the invariant holds.
	CEL string `json:"cel,omitempty"`
	// Oracle is the name of a ready-made invariant, With its parameters. Write Job and CloneSet under always:
	// their conditions for the final state are checked at the end.
	Oracle string          `json:"oracle,omitempty"`
	With   json.RawMessage `json:"with,omitempty"`
}

// Eventually is an invariant that must hold at the end.
type Eventually struct {
	Invariant `json:",inline"`
	// Within limits the time after the last step (default 30s), extended by the time during which faults
	// delay something.
	Within *metav1.Duration `json:"within,omitempty"`
}

// Faults restrict the faults of the search.
type Faults struct {
	// Level is legal (default), seen or adversarial.
	Level string `json:"level,omitempty"`
	// Only restricts them to these patterns, in the text form of faults: "lag resource=pods". No pattern may
	// exceed the level.
	Only []string `json:"only,omitempty"`
	// Except are patterns of faults that are never tried.
	Except []string `json:"except,omitempty"`
	// Trusted are clients whose requests and watches get no faults, and that are not checked for hot loops and
	// stale own writes.
	Trusted []string `json:"trusted,omitempty"`
}

// Budget limits the search.
type Budget struct {
	// Runs limits the number of runs (default 200).
	Runs int `json:"runs,omitempty"`
	// Time limits the duration (default 5m).
	Time *metav1.Duration `json:"time,omitempty"`
}
