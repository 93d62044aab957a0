package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:
The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`

const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.
This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.
You should have received a copy of the GNU General Public License along with this program. If not, see <https://www.gnu.org/licenses/>.`

func TestLicences(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // part of the error; empty: allowed
	}{
		"allowed":          {map[string]string{"LICENSE": mit}, ""},
		"forbidden":        {map[string]string{"COPYING": gpl}, "GPL-3.0-or-later"},
		"one of two":       {map[string]string{"LICENSE": mit, "LICENSE.md": gpl}, "GPL-3.0-or-later"},
		"unknown":          {map[string]string{"LICENSE": "You may use this if you send me a postcard."}, "is the text of a known licence"},
		"changed":          {map[string]string{"LICENSE": mit + strings.Repeat(" You may not use it on a day of rest or after noon.", 20)}, "is the text of a known licence"},
		"none":             {map[string]string{"README.md": mit}, "no licence file"},
		"of the docs":      {map[string]string{"LICENSE": mit, "LICENSE.docs": gpl}, ""},
		"only in a folder": {map[string]string{"vendor/LICENSE": mit}, "no licence file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := module{Path: "example.com/m", Version: "v1.0.0"}
			var err error
			if m.Licences, err = licencesIn(dir); err != nil {
				m.Unknown = err.Error()
			}
			switch err := m.allowed(); {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestSBOM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sbom.json")
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Path: "example.com/m/cmd/x", Main: debug.Module{Path: "example.com/m", Version: "v1.0.0"}}
	modules := []module{{Path: "example.com/a", Version: "v1.2.3", Sum: "h1:AAAA", Licences: []string{"MIT"}}}
	if err := writeSBOM(path, info, modules); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := json.Unmarshal(data, &bom); err != nil {
		t.Fatal(err)
	}
	if n := len(*bom.Components); n != 2 {
		t.Fatalf("%d components, want the standard library and one module", n)
	}
	c := (*bom.Components)[1]
	if c.PackageURL != "pkg:golang/example.com/a@v1.2.3" || (*c.Licenses)[0].License.ID != "MIT" {
		t.Errorf("component %+v", c)
	}
}
