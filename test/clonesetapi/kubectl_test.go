package clonesetapi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

// failure is the panic value with which kubectl ends instead of exiting the process.
type failure string

// kubectlRun runs kubectl, and returns its output and error.
func kubectlRun(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var printed bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &printed, ErrOut: &printed}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().
		WithWrapConfigFn(func(*rest.Config) *rest.Config {
			c := server.RESTConfig("test")
			c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
			return c
		})
	cache := t.TempDir()
	flags.CacheDir = &cache
	kubectlutil.BehaviorOnFatal(func(text string, _ int) { panic(failure(text)) })
	defer func() {
		kubectlutil.DefaultBehaviorOnFatal()
		if p := recover(); p != nil {
			text, ok := p.(failure)
			if !ok {
				panic(p)
			}
			out, err = printed.String(), fmt.Errorf("%s", text)
		}
	}()
	cmd := kubectl.NewKubectlCommand(kubectl.KubectlOptions{Arguments: append([]string{"kubectl"}, args...), ConfigFlags: flags, IOStreams: streams})
	cmd.SetArgs(args)
	err = cmd.Execute()
	return printed.String(), err
}

// write writes an object to a file.
func write(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cloneset.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestKubectl(t *testing.T) {
	for _, text := range []string{alpha, beta} {
		u := parse(text)
		name := "kubectl-" + u.GroupVersionKind().Version
		u.SetName(name)
		file := write(t, u)
		for _, step := range []struct {
			args, want string
		}{
			{"apply -f " + file, "cloneset.apps.kruise.io/" + name + " created"},
			{"apply -f " + file, name + " unchanged"},
			{"apply --server-side --force-conflicts -f " + file, name + " serverside-applied"},
			{"scale clone/" + name + " --replicas=3", name + " scaled"},
			{"get clone " + name, "DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE"},
			{"get clone " + name + " --no-headers", name + " 3"},
			{"get clonesets " + name + " -o wide", "a a:1"},
			{"label clone " + name + " apps.kruise.io/cloneset-scaling-exclude-preparing-delete=true", name + " labeled"},
			{"get clonesets.v1beta1.apps.kruise.io " + name + " -o jsonpath={.spec.scaleStrategy.excludePreparingDelete}", "true"},
			{"get clonesets.v1alpha1.apps.kruise.io " + name + " --show-labels", "exclude-preparing-delete=true"},
			{"delete clone " + name, "deleted"},
		} {
			out, err := kubectlRun(t, strings.Fields(step.args)...)
			if fields := strings.Join(strings.Fields(out), " "); err != nil || !strings.Contains(fields, step.want) {
				t.Errorf("kubectl %s\n%s%v\nwant %s", step.args, out, err, step.want)
			}
		}
	}
}

func TestKubectlRejects(t *testing.T) {
	for args, want := range map[string]string{
		"scale clone/%s --replicas=-1":                                     "must be greater than or equal to 0",
		"patch clone %s --type=merge -p {\"spec\":{\"updateStrategy\":1}}": "must be of type object",
	} {
		u := create(t, parse(alpha))
		out, err := kubectlRun(t, strings.Fields(fmt.Sprintf(args, u.GetName()))...)
		if err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("kubectl %s\n%s%v\nwant %s", args, out, err, want)
		}
	}
	// A field that has another name in v1alpha1 is rejected and not dropped silently.
	u := with(alpha, "scaleStrategy: {enablePVCReuse: true}")
	if out, err := kubectlRun(t, "create", "-f", write(t, u)); err == nil || !strings.Contains(out+err.Error(), `unknown field "spec.scaleStrategy.enablePVCReuse"`) {
		t.Errorf("%s%v", out, err)
	}
}

func TestExplain(t *testing.T) {
	for path, want := range map[string]string{
		"clone":                               "keeps a number of pods",
		"clone.spec.updateStrategy":           "rollingUpdate",
		"clone.spec.template.spec.containers": "imagePullPolicy",
		"clone.status.conditions":             "lastTransitionTime",
		"clone --api-version=apps.kruise.io/v1alpha1 --recursive": "disablePVCReuse",
	} {
		out, err := kubectlRun(t, append([]string{"explain"}, strings.Fields(path)...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("explain %s: %v\n%s", path, err, out)
		}
	}
}

// TestScale checks the fields that the HorizontalPodAutoscaler reads and writes: replicas, and the selector of
// the pods whose load it measures.
func TestScale(t *testing.T) {
	config := server.RESTConfig("test")
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(d))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{alpha, beta} {
		u := create(t, parse(text))
		set(u, map[string]any{"replicas": int64(1), "readyReplicas": int64(0), "availableReplicas": int64(0), "updatedReplicas": int64(1),
			"updatedReadyReplicas": int64(0), "labelSelector": "app=web"}, "status")
		if _, err := client.Resource(resource(u)).Namespace("default").UpdateStatus(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		group := schema.GroupResource{Group: v1alpha1.Group, Resource: v1alpha1.Resource}
		s, err := scales.Scales("default").Get(t.Context(), group, u.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Spec.Replicas != 1 || s.Status.Replicas != 1 || s.Status.Selector != "app=web" {
			t.Errorf("%+v %+v", s.Spec, s.Status)
		}
		s.Spec.Replicas = 5
		if _, err := scales.Scales("default").Update(t.Context(), group, s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := get(t, read(t, v1alpha1, u.GetName()), "spec", "replicas"); got != int64(5) {
			t.Errorf("replicas %v", got)
		}
	}
}
