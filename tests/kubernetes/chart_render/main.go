// chart_render renders the templates of a Helm chart as `helm template` does: Go's text/template with Sprig's functions, and values that came
// through JSON, so that numbers are float64. It has the functions of Helm's own that the chart uses.
//
//	usage: chart_render CHART RELEASE NAMESPACE SERVICE <VALUES.json
//
// Values are complete: whoever calls has merged them with values.yaml, and checked them by values.schema.json. A template that names a value
// that is not there fails, which Helm lets pass.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func functions() template.FuncMap {
	functions := sprig.TxtFuncMap()
	// Helm has none of these.
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	return functions
}

func render(chart, release, namespace, service string) error {
	var values map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	var about struct {
		Name       string `yaml:"name"`
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(text, &about); err != nil {
		return fmt.Errorf("Chart.yaml: %w", err)
	}
	scope := map[string]interface{}{
		"Values":  values,
		"Release": map[string]interface{}{"Name": release, "Namespace": namespace, "Service": service},
		"Chart":   map[string]interface{}{"Name": about.Name, "Version": about.Version, "AppVersion": about.AppVersion},
	}
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*.yaml"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := template.New(filepath.Base(file)).Option("missingkey=error").Funcs(functions()).Parse(string(text))
		if err != nil {
			return err
		}
		var rendered bytes.Buffer
		if err := parsed.Execute(&rendered, scope); err != nil {
			return err
		}
		fmt.Printf("---\n# %s\n%s\n", filepath.Base(file), rendered.String())
	}
	return nil
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: chart_render CHART RELEASE NAMESPACE SERVICE <VALUES.json")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
