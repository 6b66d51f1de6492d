"""A real browser for tests of the coordinator's page: Debian's chromium, without a window.

    with Browser() as browser:
        browser.open(url)
        browser.await_text("#view", "Pool")
"""

import os
import pathlib
import shutil
import tempfile
import time

# The script that third_party/axe_core/fetch.sh brings.
AXE = pathlib.Path("third_party/axe_core/axe.min.js")

# As cluster.PATIENCE: a hang ends, a busy machine does not fail.
PATIENCE = 60.0


def browser_unavailable():
    """Returns why there is no browser here, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program, path="/usr/bin:/bin") is None:
            return f"{program} is not installed (deploy/setup.sh installs it)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "python3-selenium is not installed (deploy/setup.sh installs it)"
    return None


def axe_unavailable():
    """Returns why Browser.barriers() cannot be asked here, or None."""
    return None if AXE.exists() else "axe-core is not here (third_party/axe_core/fetch.sh brings it from the npm registry)"


class Browser:
    def __init__(self, width=1280, height=900, is_dark=False):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        # Tests run as root, in containers with a small /dev/shm; nothing but the page may be asked for.
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                     "--disable-background-networking", "--no-first-run", "--ignore-certificate-errors", "--lang=en-GB"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # It leaves files of its own behind.
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        service = Service("/usr/bin/chromedriver", env={**os.environ, "TMPDIR": self.directory.name})
        self.driver = webdriver.Chrome(service=service, options=options)
        self.resize(width, height)
        self.look(is_dark)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.driver.quit()
        self.directory.cleanup()

    def look(self, is_dark):
        scheme = "dark" if is_dark else "light"
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def resize(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def open(self, url):
        self.driver.get(url)

    def run(self, script, *arguments):
        """Returns what the JavaScript function body does."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        """The text that a reader of the first such element sees; "" without one."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def attribute(self, selector, name):
        return self.run("return document.querySelector(arguments[0])?.getAttribute(arguments[1])", selector, name)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def await_that(self, what, condition, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout} s: {what}; the page says: {self.text('body')[:3000]}; "
                                     f"the console: {self.complaints()}")
            time.sleep(0.05)

    def await_text(self, selector, text):
        self.await_that(f"{text!r} in {selector}", lambda: text in self.text(selector))

    def complaints(self):
        """Returns what the browser has logged as errors since the last call: scripts that failed, what the page's policy forbids."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def barriers(self):
        """Returns what axe-core finds on the page, as it is now, against levels A and AA of WCAG 2.0: a line each."""
        if not self.run("return !!window.axe"):
            self.run(AXE.read_text())
        return self.run("""
            return axe.run(document, {runOnly: ["wcag2a", "wcag2aa"], resultTypes: ["violations"], preload: false}).then(({violations}) =>
              violations.flatMap(({id, nodes}) => nodes.map(({html, failureSummary}) => `${id}: ${html}: ${failureSummary}`)))""")

    def picture(self, path):
        """Writes what is seen as PNG."""
        self.driver.save_screenshot(str(path))
