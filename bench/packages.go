package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// measuredPackages are the packages whose benchmarks docs/benchmarks.md lists.
var measuredPackages = []string{"./internal/store", "./stage", "./internal/apiserver"}

func packagesCommand(out *figures) *cobra.Command {
	var benchtime string
	c := &cobra.Command{
		Use:   "packages",
		Short: "Run the benchmarks of the store, the stages and the API server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range measuredPackages {
				fmt.Println(name)
				if err := out.goTest(cmd.Context(), speed, name, "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", benchtime); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&benchtime, "benchtime", "1s", "-benchtime, as for go test")
	return c
}
