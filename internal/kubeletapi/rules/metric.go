package rules

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// Metric is a Metric object.
type Metric struct {
	Name string
	// File is the name of the file that contains the object, empty if the object is from the API.
	File string
	Spec v1alpha1.MetricSpec
}

// String returns the kind and name of the object, and its file.
func (m Metric) String() string {
	if m.File != "" {
		return fmt.Sprintf("%s %s of file %s", v1alpha1.MetricKind, m.Name, m.File)
	}
	return v1alpha1.MetricKind + " " + m.Name
}

// addMetric appends a Metric, after the checks of a file. The metrics of an object of the API are checked when they are computed, so that an
// invalid one does not disable the others.
func (s *Set) addMetric(from origin, meta metav1.ObjectMeta, spec v1alpha1.MetricSpec) error {
	if from.strict {
		if err := checkName(meta.Name); err != nil {
			return err
		}
		if err := usage.CheckMetrics(field.NewPath("spec"), &spec); err != nil {
			return err
		}
		for _, other := range s.Metrics {
			if other.Name == meta.Name {
				return existsIn(other.File)
			}
		}
	}
	s.Metrics = append(s.Metrics, Metric{Name: meta.Name, File: from.file, Spec: spec})
	return nil
}

// checkName validates the name of an object of a file.
func checkName(name string) error {
	at := field.NewPath("metadata", "name")
	if name == "" {
		return field.Required(at, "")
	}
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return field.Invalid(at, name, errs[0])
	}
	return nil
}

func existsIn(file string) error {
	return fmt.Errorf("another object of this kind and name is in file %s", file)
}
