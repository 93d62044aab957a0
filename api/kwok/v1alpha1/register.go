package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the Stage kind.
const GroupName = "kwok.x-k8s.io"

// StageKind is the kind of a Stage object.
const StageKind = "Stage"

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers Stage and StageList under GroupVersion.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Stage{}, &StageList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
