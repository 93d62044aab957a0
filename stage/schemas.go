package stage

import (
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// builtinKinds are the kinds whose lists the API merges by key.
var builtinKinds = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, autoscalingv2.AddToScheme,
		storagev1.AddToScheme, coordinationv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme,
		discoveryv1.AddToScheme, schedulingv1.AddToScheme, certificatesv1.AddToScheme, resourcev1.AddToScheme,
		admissionregistrationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // a kind registered twice: this list is wrong
		}
	}
	return s
})

// strategicSchema is the Go type whose tags say how a strategic merge of a kind
// goes; nil where it is not known.
func strategicSchema(k Kind) any {
	o, err := builtinKinds().New(k.GroupVersionKind())
	if err != nil {
		return nil
	}
	return o
}

// noStrategic reports whether a kind is surely a custom resource, of which the
// API refuses strategic merges.
func noStrategic(k Kind) bool {
	group := k.group()
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && strategicSchema(k) == nil
}
