package snapshot

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// addSelectionFlags adds the flags that select objects; verb is what the command does with them.
func addSelectionFlags(cmd *cobra.Command, s *transfer.Selection, verb string) {
	f := cmd.Flags()
	f.StringSliceVar(&s.Only, "only", nil, verb+" only these kinds, such as pods,deployments.apps (default: all)")
	f.StringSliceVarP(&s.Namespaces, "namespace", "n", nil, verb+" only the objects of these namespaces, and without --only the namespaces; of kinds without a namespace only those in --only")
	f.StringVarP(&s.Selector, "selector", "l", "", verb+" only objects with these labels; it does not apply to namespaces and CustomResourceDefinitions")
}

func validateSelection(cmd *cobra.Command, s transfer.Selection) error {
	if err := console.RejectEmpty(cmd, "only", "namespace", "selector"); err != nil {
		return err
	}
	for _, n := range s.Namespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			return console.Usagef("--namespace %q: must be a valid namespace name", n)
		}
	}
	if _, err := labels.Parse(s.Selector); err != nil {
		return console.Usagef("--selector %q: %v", s.Selector, err)
	}
	return nil
}
