package clonesetapi

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/webhook"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// definitions are the resources of the objects that define CloneSets.
var definitions = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition":         {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
}

var (
	server *apiserver.Server
	client dynamic.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	apiserver.Quiet()
	code := 1
	if err := run(m, &code); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(m *testing.M, code *int) error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "clonesetapi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err = apiserver.Start(ctx, apiserver.Options{
		Dir: filepath.Join(dir, "pki"), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, WatchCache: true,
		Conversions: map[types.NamespacedName]http.Handler{
			{Namespace: crds.ConversionNamespace, Name: crds.ConversionService}: webhook.Handler(),
		},
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := server.Ready(ctx); err != nil {
		return err
	}
	if client, err = dynamic.NewForConfig(server.RESTConfig("test")); err != nil {
		return err
	}
	if err := install(ctx); err != nil {
		return err
	}
	*code = m.Run()
	return nil
}

// install applies the definition and the policies, and waits until both are in effect.
func install(ctx context.Context) error {
	for _, doc := range append([][]byte{crds.CloneSet()}, documents(crds.CloneSetPolicies())...) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &u.Object); err != nil {
			return err
		}
		if _, err := client.Resource(definitions[u.GetKind()]).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return eventually(ctx, func() error {
		bad := parse(alpha)
		set(bad, []any{map[string]any{"name": "a", "mountPath": "/a"}}, "spec", "template", "spec", "containers", "0", "volumeMounts")
		_, err := client.Resource(v1alpha1).Namespace("default").Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "volumeClaimTemplates") {
			return fmt.Errorf("the policies are not in effect: %v", err)
		}
		return nil
	})
}

func documents(data []byte) (docs [][]byte) {
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		docs = append(docs, []byte(doc))
	}
	return docs
}

// eventually repeats f until it succeeds: what was installed is in effect once the server's own informers have
// observed it, which only its answers show.
func eventually(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
