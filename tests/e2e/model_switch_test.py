"""Models loaded, replaced and unloaded in the real program while clients call it: no call fails, and memory comes back."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPS = Path(os.environ["TRIBUTARY_DEPS"])
sys.path.append(str(ROOT / "tests/support"))
from server_process import ServerProcess  # noqa: E402: found by the line above

CONFIG = """
admin: {listen: "127.0.0.1:0"}
cache_folder: ${TRIBUTARY_DEPS}/cache
lanes: {count: 2}
models:
  - name: minilm
    text: {folder: "${TRIBUTARY_DEPS}/models/all-minilm-l6-v2"}
"""


class ModelSwitchTest(unittest.TestCase):
    def test_no_call_fails_while_models_come_and_go_and_memory_comes_back(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        folder = Path(folder.name)
        stubs = folder / "stubs"
        stubs.mkdir()
        protos = DEPS / "protos"
        subprocess.run([os.environ["TRIBUTARY_PROTOC"], f"--proto_path={ROOT / 'proto'}", f"--proto_path={protos}",
                        f"--python_out={stubs}", ROOT / "proto/tributary/v1/embedding_service.proto",
                        ROOT / "proto/tributary/v1/admin_service.proto", protos / "google/rpc/status.proto"], check=True)
        config = folder / "config.yaml"
        config.write_text(CONFIG)
        server = ServerProcess(os.environ["TRIBUTARY_SERVER"], config, folder)
        self.addCleanup(server.kill)

        client = subprocess.run(
            [DEPS / "python/bin/python", ROOT / "tests/e2e/model_switch_client.py", server.address,
             f"127.0.0.1:{server.ports['admin_port']}", str(server.process.pid), DEPS / "models/all-minilm-l6-v2"],
            env={**os.environ, "PYTHONPATH": str(stubs), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=False)

        self.assertEqual(client.returncode, 0, client.stdout + client.stderr + server.log.read_text())
        print(client.stdout)
        self.assertEqual(server.stop(), 0, server.log.read_text())


if __name__ == "__main__":
    unittest.main()
