package cluster_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestCloneSetVersions: clients can use both versions, also after a restart over the same data directory.
func TestCloneSetVersions(t *testing.T) {
	o := cluster.Options{DataDir: t.TempDir(), Controllers: []string{"cloneset"}}
	first := startCluster(t, o)
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}},
			},
			"scaleStrategy": map[string]any{"excludePreparingDelete": true},
		},
	}}
	newest := v1beta1.GroupVersion.WithResource(v1alpha1.Resource)
	await(t, "a CloneSet of v1beta1 is taken", func() error {
		_, err := admin(t, first).Resource(newest).Namespace("default").Create(t.Context(), set, metav1.CreateOptions{})
		return err
	})
	first.Stop()
	second := admin(t, startCluster(t, o))
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		got, err := second.Resource(newest.GroupResource().WithVersion(version)).Namespace("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		field, _, _ := unstructured.NestedBool(got.Object, "spec", "scaleStrategy", "excludePreparingDelete")
		if label := len(got.GetLabels()) == 1; field != (version == "v1beta1") || label == field {
			t.Errorf("%s: field %t, labels %v", version, field, got.GetLabels())
		}
	}
}

// TestDeletedAtOnce deletes a CloneSet as soon as the cluster runs: the garbage collector knows the kind by
// then, and deletes its revision. It would never delete dependents of a kind that it discovers later.
func TestDeletedAtOnce(t *testing.T) {
	c := admin(t, startCluster(t, cluster.Options{Controllers: []string{"cloneset", "garbage-collector-controller"}}))
	sets := c.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)).Namespace("default")
	revisions := c.Resource(appsv1.SchemeGroupVersion.WithResource("controllerrevisions")).Namespace("default")
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}},
			},
		},
	}}
	if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	count := func(want int) func() error {
		return func() error {
			list, err := revisions.List(t.Context(), metav1.ListOptions{})
			if err == nil && len(list.Items) != want {
				err = fmt.Errorf("there are %d", len(list.Items))
			}
			return err
		}
	}
	await(t, "there is a revision", count(1))
	if err := sets.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the revision is gone", count(0))
}

// TestCollectorKnowsOwners: the garbage collector knows a CloneSet under the version that its pods name, so
// it has no reason to read the owners one by one.
func TestCollectorKnowsOwners(t *testing.T) {
	cluster := startCluster(t, cluster.Options{Nodes: 1, Controllers: []string{"cloneset", "garbage-collector-controller", "serviceaccount-controller", "stage"}})
	c, k := admin(t, cluster), clientOf(t, cluster)
	read := func() float64 {
		families, err := k.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return reads(string(families), "pods")
	}
	before := read()
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": int64(20), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"nodeName": "node-0", "containers": []any{map[string]any{"name": "a", "image": "a"}}},
			},
		},
	}}
	sets := c.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)).Namespace("default")
	await(t, "the set is taken", func() error {
		_, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
		return err
	})
	await(t, "its pods run", func() error {
		got, err := sets.Get(t.Context(), "web", metav1.GetOptions{})
		if n, _, _ := unstructured.NestedInt64(got.Object, "status", "readyReplicas"); err == nil && n != 20 {
			err = fmt.Errorf("%d of them", n)
		}
		return err
	})
	// The collector processes this object after the pods.
	maps := k.CoreV1().ConfigMaps("default")
	orphan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "orphan", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "missing", UID: "missing"}}}}
	if _, err := maps.Create(t.Context(), orphan, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "an orphan is collected", func() error {
		if _, err := maps.Get(t.Context(), "orphan", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	if n := read() - before; n >= 20 { // one or the other may be read for another reason
		t.Errorf("%g pods were read one by one", n)
	}
}

// reads returns how many objects of a resource were read one by one, from a server's metrics.
func reads(metrics, resource string) (n float64) {
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(name, "apiserver_request_total{") && strings.Contains(name, `resource="`+resource+`",`) && strings.Contains(name, `verb="GET"`) {
			count, _ := strconv.ParseFloat(value, 64)
			n += count
		}
	}
	return n
}

// TestWithoutCloneSets: a user who disables the controller can install OpenKruise with its own definition.
func TestWithoutCloneSets(t *testing.T) {
	c := admin(t, startCluster(t, cluster.Options{Controllers: []string{"stage"}}))
	_, err := c.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(t.Context(), crds.CloneSetName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Error(errors.Join(errors.New("the definition of CloneSet is there"), err))
	}
}

// admin returns a client with the administrator's kubeconfig.
func admin(t *testing.T, c *cluster.Cluster) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
