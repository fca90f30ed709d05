"""The Prometheus rules and the Grafana dashboard, as promtool sees them. Usage: prometheus_config_test.py PROMTOOL SOURCES."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROMTOOL, SOURCES = sys.argv[1], pathlib.Path(sys.argv[2])
RULES = SOURCES / "config" / "prometheus" / "rules.yml"


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


def expressions(node):
    """All "expr" strings below a JSON node."""
    if isinstance(node, dict):
        if "expr" in node:
            yield node["expr"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from expressions(child)


def check_expressions(queries):
    """promtool checks rules, so each query becomes one."""
    rules = [{"record": f"query:{i}", "expr": query} for i, query in enumerate(queries)]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"groups": [{"name": "queries", "rules": rules}]}, file)  # JSON is YAML
        file.flush()
        return promtool("check", "rules", file.name)


class PrometheusConfig(unittest.TestCase):
    def assertAccepted(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_promtool_accepts_the_rules(self):
        self.assertAccepted(promtool("check", "rules", RULES))

    def test_the_rules_record_and_fire_as_their_own_tests_say(self):
        self.assertAccepted(promtool("test", "rules", RULES.with_name("rules_test.yml")))

    def test_every_alert_has_a_test(self):
        alerts = {line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line}
        tests = RULES.with_name("rules_test.yml").read_text()
        fired = {alert for alert in alerts if f"alertname: {alert}\n        exp_alerts:" in tests}
        self.assertTrue(alerts)
        self.assertEqual(alerts, fired)

    def test_every_query_of_the_dashboard_is_valid_promql(self):
        dashboard = json.loads((SOURCES / "config" / "grafana" / "tributary.json").read_text())
        variables = {"$__rate_interval": "1m", "$instance": ".*"}
        queries = list(expressions(dashboard))
        self.assertTrue(queries)
        for name, value in variables.items():
            queries = [query.replace(name, value) for query in queries]
        self.assertAccepted(check_expressions(queries))

    def test_a_broken_query_would_be_seen(self):
        self.assertNotEqual(check_expressions(["rate(tributary_rpc_started_total)"]).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
