package simulate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// deployed decodes a file of deploy/ with one object.
func deployed(t *testing.T, file string) runtime.Object {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/" + file)
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Each pod runs one controller, as the account with its rights, within a memory limit that the Go runtime
// knows; the network policy selects the pod and allows requests for its metrics.
func TestPodsOfDeploy(t *testing.T) {
	policy := deployed(t, "base/networkpolicy.yaml").(*networkingv1.NetworkPolicy)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	for file, c := range map[string]struct {
		role       role
		controller string
	}{
		"base/deployment.yaml":                {stageRole, "stage"},
		"sharded/statefulset.yaml":            {stageRole, "stage"},
		"components/job/deployment.yaml":      {jobRole, "job"},
		"components/cloneset/deployment.yaml": {cloneSetRole, "cloneset"},
	} {
		t.Run(filepath.Dir(file), func(t *testing.T) {
			var pod corev1.PodTemplateSpec
			switch o := deployed(t, file).(type) {
			case *appsv1.Deployment:
				pod = o.Spec.Template
			case *appsv1.StatefulSet:
				pod = o.Spec.Template
			}
			if pod.Spec.ServiceAccountName != c.role.account {
				t.Errorf("account %q, want %q", pod.Spec.ServiceAccountName, c.role.account)
			}
			one := pod.Spec.Containers[0]
			if !slices.Contains(one.Args, "--controllers="+c.controller) {
				t.Errorf("arguments %q, want --controllers=%s", one.Args, c.controller)
			}
			limit := one.Resources.Limits.Memory()
			known := slices.IndexFunc(one.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
			if limit.IsZero() || known < 0 {
				t.Fatalf("memory limit %s, environment %v", limit, one.Env)
			}
			soft := resource.MustParse(strings.TrimSuffix(one.Env[known].Value, "B")) // Go's MiB is Mi here
			if soft.Cmp(*limit) >= 0 {
				t.Errorf("GOMEMLIMIT %s is not below the limit %s", one.Env[known].Value, limit)
			}
			if !selector.Matches(labels.Set(pod.Labels)) || policy.Spec.Ingress[0].Ports[0].Port.IntVal != one.Ports[0].ContainerPort {
				t.Errorf("the network policy does not select the pod with its metrics")
			}
		})
	}
}
