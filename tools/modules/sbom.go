package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes a bill of materials of the binary. It contains no time and no random number, so
// the same binary gives the same file.
func writeSBOM(path string, info *debug.BuildInfo, modules []module) error {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: info.Path, Version: info.Main.Version, PackageURL: purl(info.Main.Path, info.Main.Version),
	}}
	components := []cdx.Component{{Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: purl("std", strings.TrimPrefix(info.GoVersion, "go"))}}
	for _, m := range modules {
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version), BOMRef: purl(m.Path, m.Version),
			Licenses: &cdx.Licenses{},
		}
		for _, l := range m.Licences {
			*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: l}})
		}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components = append(components, c)
	}
	bom.Components = &components
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write bill of materials: %w", err)
	}
	err = cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write bill of materials %s: %w", path, err)
	}
	fmt.Printf("bill of materials: %s\n", path)
	return nil
}

// purl returns the package URL of a Go module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }
