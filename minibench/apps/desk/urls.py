"""Addresses of the service desk: the desk's own views first, then the stock ones."""

from django.contrib import admin
from django.urls import include, path

from minibench.apps.desk import supply, views

urlpatterns = [
    path("ledger/", admin.site.urls),
    path("supply/", supply.counter, name="supply"),
    path("supply/order/<int:pk>/", supply.order, name="supply-order"),
    path("supply/<slug:slug>/", supply.item, name="supply-item"),
    path("tickets/", views.case_register),
    path("tickets/submit/", views.LogCaseView.as_view()),
    path("tickets/<int:ticket_id>/update/", views.WorkCaseView.as_view()),
    path("tickets/<int:ticket_id>/edit/", views.correct_details),
    path("", include("helpdesk.urls", namespace="helpdesk")),
]
