"""Views that replace stock ones where the desk works differently."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from helpdesk.models import Ticket, TicketCustomFieldValue
from helpdesk.views import staff

from minibench.apps.desk import settings
from minibench.apps.desk.forms import DeskTicketForm

SHORTEST_WORD = 4
SHORTEST_ENTRY = 20


class LogCaseView(staff.CreateTicketView):
    """Logging a case, with what the desk announces afterwards."""

    form_class = DeskTicketForm

    def form_valid(self, form: DeskTicketForm) -> HttpResponse:
        """Log the case and announce what the desk does about it."""
        response = super().form_valid(form)
        ticket = self.ticket
        if ticket.priority in (1, "1"):
            messages.warning(
                self.request,
                "P1 alarm sent. Call the Duty Harbourmaster on 4711 within 5 minutes and read out the case number.",
            )
        if ticket.queue.slug == "ACCESS":
            Ticket.objects.filter(pk=ticket.pk).update(assigned_to=ticket.queue.default_owner)
            messages.info(self.request, "Access cases go straight to Ingrid; the handler you chose was replaced.")
        if ticket.queue.slug == "CHANGE":
            messages.success(
                self.request, "Change pencilled in. It becomes firm when a desk lead moves it to Back in work."
            )
        return response


class WorkCaseView(staff.UpdateTicketView):
    """Writing to a case's journal and moving it between stages."""

    def form_valid(self, form: DeskTicketForm) -> HttpResponse:
        """Refuse what `stage_refusal` refuses; otherwise update the case and announce the new stage."""
        ticket = self.get_object()
        refusal = stage_refusal(ticket, self.request)
        if refusal:
            messages.error(self.request, refusal)
            return HttpResponseRedirect(ticket.get_absolute_url())
        before = ticket.status
        response = super().form_valid(form)
        self._announce(ticket.pk, before)
        return response

    def _announce(self, case: int, before: int) -> None:
        ticket = Ticket.objects.get(pk=case)
        if ticket.status == before:
            return
        if ticket.status == settings.AWAITING_VENDOR:
            Ticket.objects.filter(pk=case).update(assigned_to=None)
            messages.info(
                self.request, "Vendor clock started: 3 working days. The handler was dropped, so the case now drifts."
            )
        elif ticket.status == settings.FIX_DELIVERED:
            messages.success(
                self.request, "Fix delivered. The caller has 48 hours to object before the case may be sealed."
            )
        elif ticket.status == settings.TWIN:
            messages.info(self.request, "Marked as a twin. Updates continue in the original only.")


def stage_refusal(ticket: Ticket, request: HttpRequest) -> str | None:
    """Why the desk refuses this update, or None."""
    entry = request.POST.get("comment", "").strip()
    stage = int(request.POST.get("new_status", ticket.status))
    if ticket.status == settings.SEALED and stage == settings.SEALED:
        return "This case is sealed and its journal is locked. Move it to Back in work together with your entry."
    if request.POST.get("priority") == "1" and ticket.priority != 1 and not request.user.is_superuser:
        return "Only desk leads raise a case to P1. Ask Solveig."
    if stage == ticket.status:
        return None
    if stage == settings.FIX_DELIVERED:
        return _fix_refusal(ticket, request, entry)
    if stage == settings.TWIN and "#" not in entry:
        return "Name the original case in the worklog entry as # and its number."
    if stage == settings.AWAITING_VENDOR and not _vendor_reference(ticket, request):
        return "Awaiting vendor needs a Vendor reference. It is under Case particulars, below the worklog entry."
    if stage == settings.SEALED and not request.user.is_superuser:
        return "Only desk leads seal cases."
    return None


def _fix_refusal(ticket: Ticket, request: HttpRequest, entry: str) -> str | None:
    if len(entry) < SHORTEST_ENTRY or not request.POST.get("time_spent"):
        return f"Fix delivered needs a worklog entry of at least {SHORTEST_ENTRY} characters and the minutes booked."
    for runbook in ticket.checklists.all():
        ticked = {int(task) for task in request.POST.getlist(f"checklist-{runbook.pk}")}
        missing = runbook.tasks.exclude(pk__in=ticked).count()
        if missing:
            return f"Runbook {runbook.name} still has {missing} open steps. Tick them before the fix is delivered."
    return None


def _vendor_reference(ticket: Ticket, request: HttpRequest) -> str:
    stored = TicketCustomFieldValue.objects.filter(ticket=ticket, field__name="vendor_ref").first()
    return request.POST.get("custom_vendor_ref", "").strip() or (stored.value if stored and stored.value else "")


def case_register(request: HttpRequest) -> HttpResponse:
    """The list of cases: short words are dropped from a keyword search, and lane and urgency do not combine with it."""
    query = request.GET.copy()
    words = query.get("q", "").split()
    short = [word for word in words if len(word) < SHORTEST_WORD and not word.isdigit()]
    if short:
        query["q"] = " ".join(word for word in words if word not in short)
        messages.warning(request, f"Left out of the search: {', '.join(short)}. Words need at least four letters.")
    if query.get("q") and query.get("search_type") != "header":
        query.pop("queue", None)
        query.pop("priority", None)
    request.GET = query
    return staff.ticket_list(request)


def correct_details(request: HttpRequest, ticket_id: int) -> HttpResponse:
    """Correcting a case's fields, which sealed cases refuse."""
    ticket = get_object_or_404(Ticket, pk=ticket_id)
    if ticket.status == settings.SEALED:
        messages.error(request, "Details of a sealed case cannot be corrected.")
        return HttpResponseRedirect(ticket.get_absolute_url())
    return staff.edit_ticket(request, ticket_id)
