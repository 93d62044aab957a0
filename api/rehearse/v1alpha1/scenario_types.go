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

// Scenario says what is rehearsed: which controllers, in which cluster, what users do
// in it, what must hold, and what may go wrong.
type Scenario struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ScenarioSpec `json:"spec"`
}

// ScenarioSpec is what is rehearsed.
type ScenarioSpec struct {
	// Description is for people: one or two sentences.
	Description string `json:"description,omitempty"`
	// Cluster is what there is before a run begins.
	Cluster Cluster `json:"cluster,omitzero"`
	// Clients are the programs under test. Each has a door of its own to the API, behind
	// which things go wrong for it alone. One client may have neither command nor builtin:
	// its command is given on the command line, after "--".
	Clients []Client `json:"clients"`
	// Steps are what users do, in order. When they are over and everything has come to rest
	// the run is judged.
	Steps []Step `json:"steps,omitempty"`
	// Invariants are what must hold.
	Invariants Invariants `json:"invariants,omitzero"`
	// Faults are what may go wrong.
	Faults Faults `json:"faults,omitzero"`
	// Budget is how far the search goes.
	Budget Budget `json:"budget,omitzero"`
}

// Cluster is what there is before a run begins.
type Cluster struct {
	// Nodes is how many simulated nodes there are, ready from the beginning (default 2).
	Nodes *int `json:"nodes,omitempty"`
	// Controllers run beside the clients, and nothing goes wrong for them: names of
	// kube-controller-manager's controllers, and stage (the kubelets of simulated nodes),
	// scheduler, job and cloneset. Default: stage and scheduler. An empty list is none at all, so it is not omitted.
	Controllers []string `json:"controllers,omitzero"`
	// Stages are files of stages for the kubelets, in place of node-fast and pod-fast. Paths are
	// relative to the scenario's file; builtin:NAME is one of those that this program has.
	Stages []string `json:"stages,omitempty"`
	// Objects exist from the beginning: definitions of kinds, namespaces, accounts and
	// whatever the clients need.
	Objects []Manifest `json:"objects,omitempty"`
}

// Manifest is objects, in a file or in place. One of the two is given.
type Manifest struct {
	// File holds one or more YAML or JSON documents. Its path is relative to the scenario's file;
	// builtin:cloneset defines the kind CloneSet of apps.kruise.io.
	File string `json:"file,omitempty"`
	// Object is one object.
	Object json.RawMessage `json:"object,omitempty"`
}

// Client is a program under test.
type Client struct {
	// Name is its name in faults, records and reports.
	Name string `json:"name"`
	// Command is the program and its arguments. In each of them {{kubeconfig}} is the file by
	// which it reaches the API, {{namespace}} the namespace of that file, {{dir}} an empty
	// directory of this instance, {{port}} a free port of the loopback interface ({{port:x}}
	// another one for each x), and {{name}} its name. KUBECONFIG is set to the same file.
	Command []string `json:"command,omitempty"`
	// Builtin runs one of the controllers that this program has, in a process of its own, in
	// place of a command: job, cloneset, or a name of kube-controller-manager's;
	// upstream-job is upstream's Job controller.
	Builtin string `json:"builtin,omitempty"`
	// FeatureGates are those of a builtin of kube-controller-manager.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Env is added to the environment of the command.
	Env []EnvVar `json:"env,omitempty"`
	// Dir is where the command runs, relative to the scenario's file (default: where
	// rehearse was called). Env and Dir are for commands only.
	Dir string `json:"dir,omitempty"`
	// As is who the client is to the API: its RBAC applies to all requests of the client. Default: a member of
	// system:masters, who may do everything.
	As *Identity `json:"as,omitempty"`
}

// Identity is a user of the API. Either ServiceAccount or User is given.
type Identity struct {
	// ServiceAccount is namespace/name.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// User is a user's name, and Groups are groups of the user in addition to system:authenticated.
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// EnvVar is one variable of a client's environment. Its value knows the words of commands.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Step is one thing that users do. Exactly one field is given.
type Step struct {
	// Apply applies objects as `kubectl apply --server-side --force-conflicts` does.
	Apply *Manifest `json:"apply,omitempty"`
	// Create makes objects.
	Create *Manifest `json:"create,omitempty"`
	// Delete deletes an object, in the background as kubectl does. One that is not there is no failure.
	Delete *Delete `json:"delete,omitempty"`
	// Patch patches an object.
	Patch *Patch `json:"patch,omitempty"`
	// Wait waits until something holds.
	Wait *Wait `json:"wait,omitempty"`
	// Settle waits until nobody has written anything for a while.
	Settle *Settle `json:"settle,omitempty"`
}

// Reference names an object, or all objects of a kind that match a selector.
type Reference struct {
	// Resource is as kubectl writes it, with its group: "pods", "jobs.batch".
	Resource string `json:"resource"`
	// Namespace is default where none is given and the resource is in one.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Selector is of labels, in the place of a name: all objects that match.
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
	// Patch is the patch.
	Patch json.RawMessage `json:"patch"`
	// Subresource is status, scale or another one.
	Subresource string `json:"subresource,omitempty"`
}

// Wait waits until something holds. A run in which it does not is one whose promise is broken.
type Wait struct {
	Promise `json:",inline"`
	// Within is how long it may take (default 30s).
	Within *metav1.Duration `json:"within,omitempty"`
}

// Settle waits until nobody has written anything for a while.
type Settle struct {
	// Within is how long it may take (default 30s); then the next step is taken all the same.
	Within *metav1.Duration `json:"within,omitempty"`
}

// Invariants are what must hold.
type Invariants struct {
	// Always is judged after every write of anybody.
	Always []Promise `json:"always,omitempty"`
	// Eventually is judged when the steps are over.
	Eventually []Eventually `json:"eventually,omitempty"`
	// Sometimes should hold in some run, at some moment: it shows that the scenario bites.
	Sometimes []Promise `json:"sometimes,omitempty"`
	// EndsVary says that runs may end differently though nothing went wrong: then the end of
	// a run is not compared with those of runs without faults.
	EndsVary bool `json:"endsVary,omitempty"`
}

// Promise is an expression in CEL, or a ready-made oracle by its name. One of the two is given.
type Promise struct {
	// Name is a sentence for people; default: what the oracle says, or the expression.
	Name string `json:"name,omitempty"`
	// CEL is an expression that is true while the promise holds.
	CEL string `json:"cel,omitempty"`
	// Oracle is the name of a ready-made promise, With its parameters. Job and CloneSet are
	// written under always: what they promise for the end is judged in the end.
	Oracle string          `json:"oracle,omitempty"`
	With   json.RawMessage `json:"with,omitempty"`
}

// Eventually is a promise that must hold in the end.
type Eventually struct {
	Promise `json:",inline"`
	// Within is how long after the last step it may take (default 30s), and longer by what
	// faults kept back.
	Within *metav1.Duration `json:"within,omitempty"`
}

// Faults are what may go wrong.
type Faults struct {
	// Level is legal (default), seen or adversarial.
	Level string `json:"level,omitempty"`
	// Only restricts them to these patterns, in the text form of faults: "lag resource=pods".
	// None may be above the level.
	Only []string `json:"only,omitempty"`
}

// Budget is how far the search goes.
type Budget struct {
	// Runs at most (default 200).
	Runs int `json:"runs,omitempty"`
	// Time at most (default 5m).
	Time *metav1.Duration `json:"time,omitempty"`
}
