package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: kruise.GroupName, Version: "v1beta1"}

// AddToScheme registers CloneSet and CloneSetList under GroupVersion.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CloneSet{}, &CloneSetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
