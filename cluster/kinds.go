package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/api/crds"
	clonesets "github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	stages "github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/webhook"
)

// servedTimeout limits how long the API server takes to serve a kind after it is defined: milliseconds on an idle machine, but more than ten
// seconds in a test with the race detector at a load of 10.
const servedTimeout = time.Minute

// conversions are the conversion webhooks of our kinds that have several versions.
func conversions() map[types.NamespacedName]http.Handler {
	return map[types.NamespacedName]http.Handler{
		{Namespace: crds.ConversionNamespace, Name: crds.ConversionService}: webhook.Handler(),
	}
}

// definitions are the resources that define our kinds.
var definitions = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition":         apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
	"ValidatingAdmissionPolicy":        admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
	"ValidatingAdmissionPolicyBinding": admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"),
}

// ensureKinds installs the definitions of the kinds that the selected controllers manage. Without the CloneSet controller its
// kind is not installed either, so that OpenKruise's own definition can be.
func ensureKinds(ctx context.Context, config *rest.Config, list []string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var files [][]byte
	var served []schema.GroupVersion
	if picked(list, StageController) {
		files, served = append(files, crds.Stage()), append(served, stages.GroupVersion)
	}
	if picked(withoutAlias(list), CloneSet) {
		files, served = append(files, crds.CloneSet(), crds.CloneSetPolicies()), append(served, clonesets.GroupVersion)
	}
	parent := ctx
	all, ctx := errgroup.WithContext(ctx)
	for _, file := range files {
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 1<<16)
		for {
			u := &unstructured.Unstructured{}
			if err := documents.Decode(u); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			all.Go(func() error {
				err := apiserver.UntilAdmitted(ctx, func(ctx context.Context) error {
					_, err := client.Resource(definitions[u.GetKind()]).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "rehearse", Force: true})
					return err
				})
				if err != nil {
					return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
				}
				return nil
			})
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return awaitKinds(parent, config, served)
}

// awaitKinds waits until discovery lists the kinds, shortly after their definitions are created.
func awaitKinds(ctx context.Context, config *rest.Config, versions []schema.GroupVersion) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	for _, version := range versions {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, servedTimeout, true, func(context.Context) (bool, error) {
			_, err := client.ServerResourcesForGroupVersion(version.String())
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("the API does not serve %s: %w", version, err)
		}
	}
	return nil
}
