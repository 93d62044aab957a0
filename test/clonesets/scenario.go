package clonesets

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/cloneset"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Actor is the name of the controller in every scenario, for patterns of faults.
const Actor = "cloneset"

// setName is the name of the CloneSet in every scenario.
const setName = "web"

// Timeout is how long a CloneSet may take to converge after the last fault: its pods are updated one after the
// other, and each may be drained, start slowly and have to be ready for a while.
const Timeout = 15 * time.Minute

// open adds to a world what every scenario has: the controller, the kubelet and the invariants. timeout is
// that of the invariant at quiescence.
func open(w *simtest.World, c simtest.Constructor, behaviour func(*corev1.Pod) Behaviour, timeout time.Duration) {
	invariants := cloneset.Invariants(invariant.Owner{Kind: v1alpha1.Kind, Namespace: metav1.NamespaceDefault, Name: setName})
	w.AllowDifferentOutcomes() // the invariants define the correct final state
	w.RequireObservedWrites()
	w.Always(invariants.Always...)
	w.Eventually(timeout, invariants.AtQuiescence)
	w.Controller(Actor, c)
	w.Controller("kubelet", Kubelet(behaviour))
}

// AnyFault returns the patterns of all legal faults of the controller, except a second concurrent instance:
// CloneSet controllers rely on one leader at a time.
func AnyFault() []fault.Fault { return family.AnyFault(Actor) }

// Options returns the options of simtest for scenarios with CloneSets: the definition of the kind, without the
// conversion to other versions, which no scenario uses.
func Options() simtest.Options {
	return simtest.Options{}.CRDs(definition()).Scheme(kinds())
}

var definition = sync.OnceValue(func() *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(crds.CloneSet(), crd); err != nil {
		panic(err) // the file is embedded, and a test reads it
	}
	crd.Spec.Conversion = nil
	return crd
})

var kinds = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
})

// SetOf returns a CloneSet with a spec, completed by fields that no scenario is about.
func SetOf(replicas int32, spec v1alpha1.CloneSetSpec) *v1alpha1.CloneSet {
	labels := map[string]string{"app": setName}
	spec.Replicas = ptr.To(replicas)
	spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	if len(spec.Template.Spec.Containers) == 0 {
		spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
	}
	if spec.Template.Labels == nil {
		spec.Template.Labels = map[string]string{}
	}
	spec.Template.Labels["app"] = setName
	if spec.Template.Spec.TerminationGracePeriodSeconds == nil {
		spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	return &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: setName, Namespace: metav1.NamespaceDefault}, Spec: spec}
}
