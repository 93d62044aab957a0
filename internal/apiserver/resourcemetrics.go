package apiserver

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/metrics/pkg/apis/metrics"
	metricsinstall "k8s.io/metrics/pkg/apis/metrics/install"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// metricsHook is the name under which /readyz shows ensureMetricsObjects.
const metricsHook = "rehearse/resource-metrics"

// metricsScheme contains the kinds of metrics.k8s.io and those of requests.
var metricsScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metricsinstall.Install(s)
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, unversioned)
	s.AddUnversionedTypes(unversioned, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}()

// installResourceMetrics serves metrics.k8s.io from the main server, to which the aggregator delegates.
func installResourceMetrics(aggregator *genericapiserver.GenericAPIServer, storages map[string]rest.Storage, d *handlers) error {
	main, ok := aggregator.NextDelegate().(*genericapiserver.GenericAPIServer)
	if !ok {
		return errors.New("install metrics.k8s.io: the aggregator delegates to no API server")
	}
	info := genericapiserver.NewDefaultAPIGroupInfo(metrics.GroupName, metricsScheme, metav1.ParameterCodec, serializer.NewCodecFactory(metricsScheme))
	info.VersionedResourcesStorageMap[metricsv1beta1.SchemeGroupVersion.Version] = storages
	if err := main.InstallAPIGroup(&info); err != nil {
		return fmt.Errorf("install metrics.k8s.io: %w", err)
	}
	return aggregator.AddPostStartHook(metricsHook, whenAdmitted(func(ctx context.Context) error { return ensureMetricsObjects(ctx, d) }))
}

// ensureMetricsObjects creates what the manifests of metrics-server create too: the APIService, without which discovery does not list the
// group, and a role that lets users with the roles view, edit and admin read metrics. It does not change an existing APIService: a user may
// have replaced it by one that names the Service of another metrics server.
func ensureMetricsObjects(ctx context.Context, d *handlers) error {
	config := d.config("system:apiserver")
	services, err := aggregatorclient.NewForConfig(config)
	if err != nil {
		return err
	}
	version := metricsv1beta1.SchemeGroupVersion
	_, err = services.APIServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version.Version + "." + version.Group},
		Spec:       apiregistrationv1.APIServiceSpec{Group: version.Group, Version: version.Version, GroupPriorityMinimum: 100, VersionPriority: 100},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create APIService of %s: %w", version, err)
	}
	roles, err := rbacv1client.NewForConfig(config)
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "system:aggregated-metrics-reader", Labels: map[string]string{
			"kubernetes.io/bootstrapping":                 "rbac-defaults", // a snapshot leaves it out, as the other default roles
			"rbac.authorization.k8s.io/aggregate-to-view": "true", "rbac.authorization.k8s.io/aggregate-to-edit": "true", "rbac.authorization.k8s.io/aggregate-to-admin": "true",
		}},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{version.Group}, Resources: []string{"pods", "nodes"}}},
	}
	if _, err := roles.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create cluster role %s: %w", role.Name, err)
	}
	return nil
}
