// Shows the status; everything that is told becomes text, never markup.
const EVERY_MS = 5000;
const byId = (id) => document.getElementById(id);
const said = byId("said");

function ask(path, options = {}) {
  const page = localStorage.getItem("holdfast-page") ?? "";
  return fetch(path, { ...options, headers: { "X-Holdfast-Page": page } });
}

function row(name, service) {
  const line = document.createElement("tr");
  for (const value of [name, service.status, service.pid ?? "-", service.restart_count ?? "-", service.reason ?? ""]) {
    line.insertCell().textContent = value;
  }
  return line;
}

async function show() {
  const [who, status] = await Promise.all([ask("/session"), ask("/api/status")]);
  if (!who.ok) {
    byId("leave").hidden = byId("services").hidden = true;
    byId("who").textContent = "";
    said.textContent = "Nobody is logged in here. Run `holdfast dashboard` in a terminal.";
    said.dataset.state = "nobody";
    return;
  }
  const actor = await who.json();
  byId("who").textContent = `${actor.actor} (${actor.role})`;
  byId("leave").hidden = false;
  const told = await status.json();
  if (!status.ok) {
    said.textContent = told.detail;
    said.dataset.state = "refused";
    return;
  }
  const { supervisor, services } = told;
  said.textContent = `${supervisor.project}: ${supervisor.managed_services} services, version ${supervisor.version}`;
  byId("services").hidden = false;
  byId("services").tBodies[0].replaceChildren(...Object.entries(services).map(([name, it]) => row(name, it)));
  said.dataset.state = "shown";
}

function refresh() {
  if (document.visibilityState === "visible") {
    show().catch((error) => { said.textContent = `Holdfast does not answer: ${error.message}`; });
  }
}

byId("leave").addEventListener("click", async () => {
  const answer = await ask("/logout", { method: "POST" });
  if (!answer.ok) {
    said.textContent = (await answer.json()).detail;
    return;
  }
  localStorage.removeItem("holdfast-page");
  await show();
});
refresh();
setInterval(refresh, EVERY_MS);
