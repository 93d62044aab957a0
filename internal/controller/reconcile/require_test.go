package reconcile

import (
	"strings"
	"testing"

	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
)

// TestRequireRevisions checks that without client-go's AtomicFIFO a controller does not start, and that the
// error names the variable.
func TestRequireRevisions(t *testing.T) {
	create := func() error {
		_, err := NewController("Job", nil, nil, func(*Corrections) (Instance, error) { return nil, nil })
		return err
	}
	if err := create(); err != nil {
		t.Error(err)
	}
	featurestesting.SetFeatureDuringTest(t, features.UnlockWhileProcessingFIFO, false)
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)
	if err := create(); err == nil || !strings.HasPrefix(err.Error(), "create Job controller: ") || !strings.Contains(err.Error(), "KUBE_FEATURE_AtomicFIFO") {
		t.Errorf("error %v", err)
	}
}
