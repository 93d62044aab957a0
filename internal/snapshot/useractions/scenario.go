package useractions

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
)

// pause is the time between two actions of users after which the controllers have had time to act: a settle step
// takes its place.
const pause = time.Second

// controllers are the controllers of the kinds of Kubernetes. They run in the scenario if the recording has an object of the
// kind: the program under test may create one.
var controllers = []struct {
	kind schema.GroupKind
	name string
}{
	{schema.GroupKind{Group: "apps", Kind: "Deployment"}, "deployment-controller"},
	{schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, "replicaset-controller"},
	{schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "statefulset-controller"},
	{schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, "daemonset-controller"},
	{schema.GroupKind{Group: "batch", Kind: "CronJob"}, "cronjob-controller"},
	{schema.GroupKind{Group: "batch", Kind: "Job"}, "job"},
	{schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, "disruption-controller"},
	{schema.GroupKind{Kind: "PersistentVolumeClaim"}, "persistentvolume-binder-controller"},
}

// Scenario returns the scenario of a result. The base is a scenario whose clients, invariants, faults and budget it takes; nil for
// one client "controller" without a command. The objects of the base come first; its steps are replaced.
func (r *Result) Scenario(name, description string, base *v1alpha1.Scenario) (*v1alpha1.Scenario, error) {
	if base == nil {
		base = &v1alpha1.Scenario{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.ScenarioSpec{Clients: []v1alpha1.Client{{Name: "controller"}}},
		}
	}
	out := *base
	out.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ScenarioKind}
	out.Spec.Description = description
	out.Spec.Cluster.Objects = slices.Clone(base.Spec.Cluster.Objects)
	for _, o := range r.Objects {
		m, err := manifest(o.Object)
		if err != nil {
			return nil, err
		}
		out.Spec.Cluster.Objects = append(out.Spec.Cluster.Objects, *m)
		if out.Spec.Cluster.Nodes == nil && o.GetKind() == node.Kind && o.GetAPIVersion() == "v1" {
			out.Spec.Cluster.Nodes = new(int) // the recorded ones, in place of simulated ones
		}
	}
	if base.Spec.Cluster.Controllers == nil {
		out.Spec.Cluster.Controllers = r.controllers(base.Spec.Clients)
	}
	var err error
	out.Spec.Steps, err = r.steps()
	return &out, err
}

// controllers returns the controllers that the recorded kinds require, without those that are under test.
func (r *Result) controllers(clients []v1alpha1.Client) []string {
	names := []string{"stage", "scheduler"}
	for _, c := range controllers {
		if slices.Contains(r.Kinds, c.kind) {
			names = append(names, c.name)
		}
	}
	names = append(names, "garbage-collector-controller")
	if slices.ContainsFunc(r.Actions, func(a Action) bool {
		return a.Verb == Delete && a.Resource == schema.GroupResource{Resource: "namespaces"}
	}) {
		names = append(names, "namespace-controller")
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(clients, func(c v1alpha1.Client) bool { return strings.TrimPrefix(c.Builtin, "upstream-") == name })
	})
}

// steps returns the actions as steps, with a settle step before the first one, in place of each pause, and before an object is created
// again: a delete takes time when finalizers must be removed.
func (r *Result) steps() ([]v1alpha1.Step, error) {
	var out []v1alpha1.Step
	for i, a := range r.Actions {
		again := a.Verb == Create && slices.ContainsFunc(r.Actions[:i], func(b Action) bool { return b.Resource == a.Resource && b.Object == a.Object })
		if i == 0 || again || a.After-r.Actions[i-1].After >= pause {
			out = append(out, v1alpha1.Step{Settle: &v1alpha1.Settle{}})
		}
		step, err := a.step()
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", a.Document, err)
		}
		out = append(out, step)
	}
	return out, nil
}

func (a Action) step() (v1alpha1.Step, error) {
	on := v1alpha1.Reference{Resource: a.Resource.String(), Namespace: a.Object.Namespace, Name: a.Object.Name}
	switch a.Verb {
	case Create:
		m, err := manifest(a.Content)
		return v1alpha1.Step{Create: m}, err
	case Delete:
		d := &v1alpha1.Delete{Reference: on}
		if a.Propagation != metav1.DeletePropagationBackground {
			d.Propagation = a.Propagation
		}
		return v1alpha1.Step{Delete: d}, nil
	}
	data, err := json.Marshal(a.Content)
	p := &v1alpha1.Patch{Reference: on, Patch: data, Subresource: a.Subresource}
	if a.PatchType == types.StrategicMergePatchType {
		p.Type = "strategic"
	}
	return v1alpha1.Step{Patch: p}, err
}

func manifest(o map[string]any) (*v1alpha1.Manifest, error) {
	data, err := json.Marshal(o)
	return &v1alpha1.Manifest{Object: data}, err
}

// MoveFiles makes the files that a scenario names relative to another directory.
func MoveFiles(s *v1alpha1.Scenario, from, to string) error {
	move := func(file *string) error {
		if *file == "" || filepath.IsAbs(*file) || strings.HasPrefix(*file, "builtin:") {
			return nil
		}
		source, err := filepath.Abs(filepath.Join(from, *file))
		if err != nil {
			return err
		}
		target, err := filepath.Abs(to)
		if err != nil {
			return err
		}
		if moved, err := filepath.Rel(target, source); err == nil {
			source = moved
		}
		*file = source
		return nil
	}
	spec := &s.Spec
	spec.Cluster.Stages, spec.Cluster.Objects, spec.Clients = slices.Clone(spec.Cluster.Stages), slices.Clone(spec.Cluster.Objects), slices.Clone(spec.Clients)
	files := make([]*string, 0, len(spec.Cluster.Stages)+len(spec.Cluster.Objects)+len(spec.Clients))
	for i := range spec.Cluster.Stages {
		files = append(files, &spec.Cluster.Stages[i])
	}
	for i := range spec.Cluster.Objects {
		files = append(files, &spec.Cluster.Objects[i].File)
	}
	for i := range spec.Clients {
		files = append(files, &spec.Clients[i].Dir)
	}
	for _, file := range files {
		if err := move(file); err != nil {
			return err
		}
	}
	return nil
}

// Encode returns a scenario as YAML, after comments.
func Encode(s *v1alpha1.Scenario, comments []string) ([]byte, error) {
	data, err := yaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, c := range comments {
		fmt.Fprintf(&out, "# %s\n", c)
	}
	out.Write(data)
	return []byte(out.String()), nil
}
