package rules

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// Kinds are the kinds that configure kubelet endpoints, the resource usage of pods and the metrics of nodes.
var Kinds = []string{
	v1alpha1.MetricKind,
	v1alpha1.ResourceUsageKind, v1alpha1.ClusterResourceUsageKind,
	v1alpha1.LogsKind, v1alpha1.ClusterLogsKind, v1alpha1.AttachKind, v1alpha1.ClusterAttachKind,
	v1alpha1.ExecKind, v1alpha1.ClusterExecKind, v1alpha1.PortForwardKind, v1alpha1.ClusterPortForwardKind,
}

// IsRule reports whether a YAML document contains an object of one of Kinds.
func IsRule(document []byte) bool {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(document, &head); err != nil {
		return false
	}
	return head.APIVersion == v1alpha1.GroupVersion.String() && slices.Contains(Kinds, head.Kind)
}

// Add decodes the object of a YAML document of a file, and adds it. Decoding is strict: an unknown or duplicate field is an error, as is
// a value that no request can use. A namespaced object without a namespace is in the namespace default, as for kubectl.
func (s *Set) Add(file string, document []byte) error {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return oneLine(err)
	}
	return s.add(file, asJSON, true)
}

// AddObject adds an object that the API server stores, as JSON. It ignores fields that the types do not have, and it does not check
// values: an entry that no request can use must not disable the other objects.
func (s *Set) AddObject(asJSON []byte) error { return s.add("", asJSON, false) }

func (s *Set) add(file string, asJSON []byte, strict bool) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &head); err != nil {
		return oneLine(err)
	}
	err := s.addKind(head.Kind, file, asJSON, strict)
	if err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, oneLine(err))
	}
	return nil
}

func (s *Set) addKind(kind, file string, asJSON []byte, strict bool) (err error) {
	decode := func(into any) bool {
		err = decodeJSON(asJSON, into, strict)
		return err == nil
	}
	at := origin{kind: kind, file: file, strict: strict}
	switch kind {
	case v1alpha1.LogsKind:
		if o := (&v1alpha1.Logs{}); decode(o) {
			at.namespaced = true
			err = addTo(&s.Logs, at, o.ObjectMeta, nil, o.Spec.Logs, validateLog)
		}
	case v1alpha1.ClusterLogsKind:
		if o := (&v1alpha1.ClusterLogs{}); decode(o) {
			err = addTo(&s.Logs, at, o.ObjectMeta, o.Spec.Selector, o.Spec.Logs, validateLog)
		}
	case v1alpha1.AttachKind:
		if o := (&v1alpha1.Attach{}); decode(o) {
			at.namespaced = true
			err = addTo(&s.Attaches, at, o.ObjectMeta, nil, o.Spec.Attaches, validateAttach)
		}
	case v1alpha1.ClusterAttachKind:
		if o := (&v1alpha1.ClusterAttach{}); decode(o) {
			err = addTo(&s.Attaches, at, o.ObjectMeta, o.Spec.Selector, o.Spec.Attaches, validateAttach)
		}
	case v1alpha1.ExecKind:
		if o := (&v1alpha1.Exec{}); decode(o) {
			at.namespaced = true
			err = addTo(&s.Execs, at, o.ObjectMeta, nil, o.Spec.Execs, validateExec)
		}
	case v1alpha1.ClusterExecKind:
		if o := (&v1alpha1.ClusterExec{}); decode(o) {
			err = addTo(&s.Execs, at, o.ObjectMeta, o.Spec.Selector, o.Spec.Execs, validateExec)
		}
	case v1alpha1.PortForwardKind:
		if o := (&v1alpha1.PortForward{}); decode(o) {
			at.namespaced = true
			err = addTo(&s.Forwards, at, o.ObjectMeta, nil, o.Spec.Forwards, validateForward)
		}
	case v1alpha1.ClusterPortForwardKind:
		if o := (&v1alpha1.ClusterPortForward{}); decode(o) {
			err = addTo(&s.Forwards, at, o.ObjectMeta, o.Spec.Selector, o.Spec.Forwards, validateForward)
		}
	case v1alpha1.ResourceUsageKind:
		if o := (&v1alpha1.ResourceUsage{}); decode(o) {
			at.namespaced = true
			err = addTo(&s.Usages, at, o.ObjectMeta, nil, o.Spec.Usages, validateUsage)
		}
	case v1alpha1.ClusterResourceUsageKind:
		if o := (&v1alpha1.ClusterResourceUsage{}); decode(o) {
			err = addTo(&s.Usages, at, o.ObjectMeta, o.Spec.Selector, o.Spec.Usages, validateUsage)
		}
	case v1alpha1.MetricKind:
		if o := (&v1alpha1.Metric{}); decode(o) {
			err = s.addMetric(at, o.ObjectMeta, o.Spec)
		}
	default:
		err = fmt.Errorf("kind %q configures no kubelet endpoint, resource usage or metric", kind)
	}
	return err
}

// decodeJSON decodes an object, and rejects unknown and duplicate fields if strict is set.
func decodeJSON(asJSON []byte, into any, strict bool) error {
	if !strict {
		return kjson.UnmarshalCaseSensitivePreserveInts(asJSON, into)
	}
	wrong, err := kjson.UnmarshalStrict(asJSON, into)
	if err == nil && len(wrong) > 0 {
		err = wrong[0]
	}
	return err
}

// oneLine removes the line breaks of an error.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// origin is where an object comes from.
type origin struct {
	kind, file string
	namespaced bool
	strict     bool // the values are checked
}

// addTo appends an object to the objects of its kinds, after the checks of a file.
func addTo[E any](objects *[]Object[E], from origin, meta metav1.ObjectMeta, selector *v1alpha1.ObjectSelector, entries []E, validate func(*field.Path, E) *field.Error) error {
	o := Object[E]{Kind: from.kind, Name: meta.Name, File: from.file, Selector: selector, Entries: entries}
	if from.namespaced {
		o.Namespace = cmp.Or(meta.Namespace, metav1.NamespaceDefault)
	}
	if from.strict {
		if err := check(o, *objects, entriesField[strings.TrimPrefix(from.kind, "Cluster")], validate); err != nil {
			return err
		}
	}
	*objects = append(*objects, o)
	return nil
}

// check validates an object of a file.
func check[E any](o Object[E], others []Object[E], entries string, validate func(*field.Path, E) *field.Error) error {
	if err := checkName(o.Name); err != nil {
		return err
	}
	path := field.NewPath("spec", entries)
	if len(o.Entries) == 0 {
		return field.Required(path, "the object has no entry")
	}
	for i, e := range o.Entries {
		if err := validate(path.Index(i), e); err != nil {
			return err
		}
	}
	for _, other := range others {
		if other.Kind == o.Kind && other.Namespace == o.Namespace && other.Name == o.Name {
			return existsIn(other.File)
		}
	}
	return nil
}

// entriesField is the field with the entries, by kind.
var entriesField = map[string]string{
	v1alpha1.LogsKind: "logs", v1alpha1.AttachKind: "attaches", v1alpha1.ExecKind: "execs", v1alpha1.PortForwardKind: "forwards",
	v1alpha1.ResourceUsageKind: "usages",
}

func validateLog(path *field.Path, e v1alpha1.Log) *field.Error {
	if e.LogsFile == "" && e.PreviousLogsFile == "" {
		return field.Required(path.Child("logsFile"), "name a file")
	}
	return nil
}

func validateAttach(path *field.Path, e v1alpha1.AttachConfig) *field.Error {
	if e.LogsFile == "" {
		return field.Required(path.Child("logsFile"), "name a file")
	}
	return nil
}

func validateExec(path *field.Path, e v1alpha1.ExecTarget) *field.Error {
	if e.Local == nil {
		return field.Required(path.Child("local"), "exec has no other target; {} runs the command without settings")
	}
	for i, env := range e.Local.Envs {
		if env.Name == "" || strings.ContainsAny(env.Name, "=\x00") {
			return field.Invalid(path.Child("local", "envs").Index(i).Child("name"), env.Name, "is not a name of an environment variable")
		}
	}
	if c := e.Local.SecurityContext; c != nil {
		for name, id := range map[string]*int64{"runAsUser": c.RunAsUser, "runAsGroup": c.RunAsGroup} {
			if id != nil && (*id < 0 || *id > math.MaxInt32) {
				return field.Invalid(path.Child("local", "securityContext", name), *id, "must be 0 to 2147483647")
			}
		}
	}
	return nil
}

func validateForward(path *field.Path, e v1alpha1.Forward) *field.Error {
	for i, port := range e.Ports {
		if errs := validation.IsValidPortNum(int(port)); len(errs) > 0 {
			return field.Invalid(path.Child("ports").Index(i), port, errs[0])
		}
	}
	switch {
	case len(e.Command) > 0:
	case e.Target == nil:
		return field.Required(path.Child("target"), "name a target or a command")
	case e.Target.Address == "":
		return field.Required(path.Child("target", "address"), "name a host or an IP address")
	default:
		if errs := validation.IsValidPortNum(int(e.Target.Port)); len(errs) > 0 {
			return field.Invalid(path.Child("target", "port"), e.Target.Port, errs[0])
		}
	}
	return nil
}
