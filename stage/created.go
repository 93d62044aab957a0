package stage

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Created returns a copy of an object from a file with the defaults that the API server sets on creation. It binds
// a pod to a node. It keeps the fields that the object has.
func Created(o Object, now time.Time) Object {
	out := copied(o)
	if p, ok := out.(*corev1.Pod); ok {
		if p.Namespace == "" {
			p.Namespace = metav1.NamespaceDefault
		}
		if p.Status.Phase == "" {
			p.Status.Phase = corev1.PodPending
		}
		if p.Status.QOSClass == "" {
			p.Status.QOSClass = corev1.PodQOSBestEffort
		}
		if p.Spec.RestartPolicy == "" {
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}
		if p.Spec.NodeName == "" {
			p.Spec.NodeName = "node-0"
		}
		if len(p.Status.Conditions) == 0 {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: seconds(now)}}
		}
	}
	if out.GetUID() == "" {
		out.SetUID(madeUpUID(out))
	}
	if out.GetResourceVersion() == "" {
		out.SetResourceVersion("1")
	}
	if at := out.GetCreationTimestamp(); at.IsZero() {
		out.SetCreationTimestamp(seconds(now))
	}
	if out.GetGeneration() == 0 {
		out.SetGeneration(1)
	}
	return out
}

// madeUpUID derives a UID from kind, namespace and name.
func madeUpUID(o Object) types.UID {
	s := sha256.Sum256([]byte(KindOf(o).String() + "/" + o.GetNamespace() + "/" + o.GetName()))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", s[:4], s[4:6], s[6:8], s[8:10], s[10:16]))
}

// ObjectFrom converts JSON values into the form that the functions of this package expect: pods and nodes become Go
// structs. A field with a wrong type is an error.
func ObjectFrom(values map[string]any) (Object, error) {
	u := &unstructured.Unstructured{Object: values}
	kind := Kind{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}
	if !kind.typed() {
		return u, nil
	}
	example := reflect.TypeFor[corev1.Pod]()
	if kind == KindNode {
		example = reflect.TypeFor[corev1.Node]()
	}
	if field, why := misfit("", values, example); why != "" {
		return nil, fmt.Errorf("%s: %s", field, why)
	}
	return ObjectOf(values, kind)
}

// StandIn implements Facts without a cluster: all nodes have one address, and all pods have one.
type StandIn struct{ Start time.Time }

// NodeIPs implements Facts.
func (StandIn) NodeIPs(string) ([]string, error) { return []string{"10.16.0.1"}, nil }

// PodIPs implements Facts.
func (StandIn) PodIPs(types.UID, string) ([]string, error) { return []string{"10.128.0.1"}, nil }

// NodePort implements Facts. Without configuration an engine has no kubelet endpoint.
func (StandIn) NodePort() int { return 0 }

// Version implements Facts.
func (StandIn) Version() string { return "v0.0.0" }

// StartTime implements Facts.
func (s StandIn) StartTime() time.Time { return s.Start }
